package faces

import (
	"path/filepath"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/pathname"
)

// Dragged returns the images of this machine whose paths a message of its user has: what a
// terminal makes of a file that is dragged onto it. A file that is no image stays a word.
func Dragged(text string) (parts []pygent.Part) {
	for _, path := range pathname.Dragged(text) {
		attached, err := chat.Attach(path)
		if err == nil && attached[0].ImageURL != "" {
			attached[0].FileName = filepath.Base(path)
			parts = append(parts, attached[0])
		}
	}
	return parts
}
