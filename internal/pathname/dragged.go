package pathname

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
)

// maxDragged is how many images a message may bring by their paths.
const maxDragged = 10

// Dragged returns the paths of images of this machine that a text names as a terminal
// writes a file that is dragged onto it: from the root or the home on, in quotes, with
// backslashes before blanks, or as a file URL. Each is a regular file.
func Dragged(text string) (paths []string) {
	for at := 0; at < len(text) && len(paths) < maxDragged; {
		if unicode.IsSpace(rune(text[at])) {
			at++
			continue
		}
		word := text[at : at+wordEnd(text[at:])]
		at += len(word)
		if path, ok := image(word); ok && !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	return paths
}

// wordEnd returns where the word ends that a text begins with, as a shell reads it.
func wordEnd(text string) int {
	if quote := text[0]; quote == '\'' || quote == '"' {
		if end := strings.IndexByte(text[1:], quote); end >= 0 {
			return end + 2
		}
	}
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '\\' && i+1 < len(text):
			i++
		case unicode.IsSpace(rune(text[i])):
			return i
		}
	}
	return len(text)
}

// image returns the path of the image that a word names.
func image(word string) (path string, ok bool) {
	bare := strings.Trim(word, `'"`)
	isDrive := len(bare) > 2 && bare[1] == ':'
	if !strings.HasPrefix(bare, "/") && !strings.HasPrefix(bare, "~/") && !strings.HasPrefix(bare, "file:") && !isDrive {
		return "", false
	}
	path, err := Host().Read(word)
	if err != nil || !filepath.IsAbs(path) {
		return "", false
	}
	switch strings.ToLower(filepath.Ext(path)) {
	case ".png", ".jpg", ".jpeg", ".gif", ".webp":
	default:
		return "", false
	}
	info, err := os.Stat(path)
	return path, err == nil && info.Mode().IsRegular()
}
