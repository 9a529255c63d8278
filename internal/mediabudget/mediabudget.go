// Package mediabudget bounds the images and files that tools show a model. Each request sends
// the whole conversation again, so images that stay in it are paid for, and
// transferred, at every step.
package mediabudget

import (
	"fmt"
	"slices"
	"strings"
)

// Bounds of what a model is shown.
const (
	// MaxImage is the longest URL of an image in bytes: a data URL of 5 MiB.
	MaxImage = 7 << 20
	// MaxResult is how many images a result may have.
	MaxResult = 8
	// MaxImages is how many images of tools a request has at most.
	MaxImages = 16
	// MaxBytes bounds the images of tools in a request, in bytes of their URLs.
	MaxBytes = 8 << 20
)

// Choose returns the images of a result that can be shown when there is room for
// a number of bytes, and a note for the model about those that cannot.
func Choose(urls []string, room int) (shown []string, note string) {
	kept, note := kind{"image", "an https URL, or a data URL of an image", isImage, MaxImage}.choose(urls, room)
	for _, i := range kept {
		shown = append(shown, urls[i])
	}
	return shown, note
}

// ChooseFiles is Choose for PDF files and recordings, with the indexes of those
// that can be shown.
func ChooseFiles(urls []string, room int) (kept []int, note string) {
	return kind{"file", "a data URL of a PDF file, or of a WAV or MP3 recording", isFile, MaxBytes}.choose(urls, room)
}

// kind is a kind of things that are shown.
type kind struct {
	name, want string
	is         func(url string) bool
	most       int // bytes of a URL
}

func (k kind) choose(urls []string, room int) (kept []int, note string) {
	var notes []string
	say := func(i int, format string, args ...any) {
		notes = append(notes, fmt.Sprintf("%s %d is left out: ", k.name, i+1)+fmt.Sprintf(format, args...))
	}
	for i, url := range urls {
		switch {
		case len(kept) == MaxResult:
			notes = append(notes, fmt.Sprintf("%ss %d to %d are left out: a result shows at most %d", k.name, i+1, len(urls), MaxResult))
			return kept, inBrackets(notes)
		case !k.is(url): // a provider would refuse it, and every later request with it
			say(i, "want %s", k.want)
		case len(url) > k.most:
			say(i, "with %s it is too large; make a smaller copy", size(url))
		case len(url) > room:
			say(i, "with %s it is too large to be shown beside the others; look at it alone", size(url))
		default:
			kept, room = append(kept, i), room-len(url)
		}
	}
	return kept, inBrackets(notes)
}

func isFile(url string) bool {
	kind, _, isData := dataURL(url)
	return isData && strings.Contains(url, ";base64,") && slices.Contains([]string{"application/pdf", "audio/wav", "audio/mpeg"}, kind)
}

func isImage(url string) bool {
	kind, _, isData := dataURL(url)
	return isData && strings.HasPrefix(kind, "image/") || strings.HasPrefix(url, "https://") || strings.HasPrefix(url, "http://")
}

func inBrackets(notes []string) string {
	if len(notes) == 0 {
		return ""
	}
	return "[" + strings.Join(notes, "]\n[") + "]"
}

// Instead returns what a model is told instead of an image that it was shown
// earlier.
func Instead(url string) string {
	if kind, _, isData := dataURL(url); isData {
		what := "an image"
		if isFile(url) {
			what = "a file"
		}
		return fmt.Sprintf("[%s was here (%s, %s); it is left out now, so look at it again if you need it]", what, kind, size(url))
	}
	return fmt.Sprintf("[the image %s was here; it is left out now]", url[:min(len(url), 1000)])
}

// NoRoom returns what a model is told instead of an image or a file that it asked
// to see, when its window has no room for it.
func NoRoom(url string) string {
	what := "the image " + url[:min(len(url), 1000)]
	if kind, _, isData := dataURL(url); isData {
		what = fmt.Sprintf("%s, %s", kind, size(url))
	}
	return "[" + what + ", is not shown: the context window has no room for it; look at fewer at a time, or at a smaller copy]"
}

// size says how large an image is.
func size(url string) string {
	n := len(url)
	if _, data, isData := dataURL(url); isData {
		n = len(data) / 4 * 3
	}
	return fmt.Sprintf("%d bytes", n)
}

func dataURL(url string) (kind, data string, ok bool) {
	rest, ok := strings.CutPrefix(url, "data:")
	if !ok {
		return "", "", false
	}
	head, data, ok := strings.Cut(rest, ",")
	kind, _, _ = strings.Cut(head, ";")
	return kind, data, ok && len(kind) < 100
}

// Window decides which images of a conversation are still sent. It lets images
// go in batches, since whatever changes inside a conversation has the provider
// process all that follows anew. It depends only on what was added. The zero
// Window has no images.
type Window struct {
	shown         []group // the oldest first
	images, bytes int     // in them
}

// group are the images of one message.
type group struct{ images, bytes int }

// Add adds a message's images, and returns how many of the oldest messages are
// to lose theirs now. It is never the one that was added.
func (w *Window) Add(urls ...string) (drop int) {
	g := group{images: len(urls)}
	for _, url := range urls {
		g.bytes += len(url)
	}
	w.shown = append(w.shown[:len(w.shown):len(w.shown)], g) // copies of a Window share nothing
	w.images, w.bytes = w.images+g.images, w.bytes+g.bytes
	if w.images <= MaxImages && w.bytes <= MaxBytes {
		return 0
	}
	for len(w.shown) > 1 && (w.images > MaxImages/2 || w.bytes > MaxBytes/2) {
		w.images, w.bytes = w.images-w.shown[0].images, w.bytes-w.shown[0].bytes
		w.shown = w.shown[1:]
		drop++
	}
	return drop
}
