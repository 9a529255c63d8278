package main

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

var (
	link    = regexp.MustCompile(`\]\(<?([^)\s>]+)>?\)`)
	heading = regexp.MustCompile(`(?m)^#{1,6} (.*)$`)
)

// Links within the repository lead to files that exist, and to headings that exist.
func TestLinksOfTheDocumentation(t *testing.T) {
	t.Parallel()
	for _, name := range documents(t) {
		data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		require.NoError(t, err)
		for _, m := range link.FindAllStringSubmatch(withoutCode(string(data)), -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			if err := follow(name, m[1]); err != nil {
				t.Errorf("%s: %s: %v", name, m[1], err)
			}
		}
	}
}

// follow reports what is wrong with a link of a document.
func follow(from, to string) error {
	to, anchor, _ := strings.Cut(to, "#")
	target := from
	if to != "" {
		target = path.Join(path.Dir(from), to)
	}
	info, err := os.Stat(filepath.Join(root, filepath.FromSlash(target)))
	if err != nil || anchor == "" || info.IsDir() {
		return err
	}
	data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(target)))
	if err != nil {
		return err
	}
	for _, h := range heading.FindAllStringSubmatch(withoutCode(string(data)), -1) {
		if slug(h[1]) == anchor {
			return nil
		}
	}
	return fmt.Errorf("no such heading")
}

var fenced = regexp.MustCompile("(?ms)^ *```.*?^ *```$")

// withoutCode returns a document without its blocks of code.
func withoutCode(text string) string { return fenced.ReplaceAllString(text, "") }

// slug returns the anchor of a heading, as GitHub and the site's generator make it.
func slug(title string) string {
	var out strings.Builder
	for _, r := range strings.ToLower(title) {
		switch {
		case r == ' ' || r == '-':
			out.WriteByte('-')
		case r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			out.WriteRune(r)
		}
	}
	return out.String()
}
