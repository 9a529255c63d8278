package chat

import (
	"cmp"
	"slices"
	"strings"

	"github.com/x/pygent/internal/compact"
	"github.com/x/pygent/internal/mediabudget"
)

// MediaURL is the URL of what the part shows besides text, empty for a text.
func (p *Part) MediaURL() string { return cmp.Or(p.ImageURL, p.FileURL, p.AudioURL) }

// Media returns the parts of a message that are images, files and recordings.
func (m Message) Media() []Part {
	return slices.DeleteFunc(slices.Clone(m.Parts), func(p Part) bool { return p.MediaURL() == "" })
}

// weightOf is what a message that has its JSON weighs: its bytes, except that
// images and files count by what providers make of them.
func weightOf(m Message) int {
	weight := sizeInJSON(m)
	for i := range m.Parts {
		p := &m.Parts[i]
		if url := p.MediaURL(); strings.HasPrefix(url, "data:") || p.ImageURL != "" {
			weight += p.weight() - len(url)
		}
	}
	return max(weight, 0)
}

// weight is what an image, a file or a recording weighs.
func (p *Part) weight() int {
	switch {
	case p.ImageURL != "":
		return compact.Image(mediabudget.Pixels(p.ImageURL))
	case p.AudioURL != "":
		return compact.Media("audio", len(p.AudioURL))
	}
	return compact.Media("file", len(p.MediaURL()))
}

// showsMediaOfTools reports whether a message is one of showMedia, and shows
// something.
func showsMediaOfTools(m Message) bool {
	return isOfTools(m) && slices.ContainsFunc(m.Parts, func(p Part) bool { return p.MediaURL() != "" })
}

// isOfTools reports whether a message is one of showMedia, perhaps without what it
// has shown.
func isOfTools(m Message) bool {
	if m.Role != RoleUser || len(m.Parts) < 2 {
		return false
	}
	return mediabudget.IsHeading(m.Parts[0].Text)
}

// withoutMedia returns a message that says of each image and file that it was
// there.
func withoutMedia(m Message) Message {
	m.Parts = slices.Clone(m.Parts)
	for i, p := range m.Parts {
		if url := p.MediaURL(); url != "" {
			m.Parts[i] = Part{Text: mediabudget.Instead(url)}
		}
	}
	if encoded, err := m.encoded(); err == nil {
		return encoded
	}
	return m
}
