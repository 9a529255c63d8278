package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/pathname"
)

// attached reads the files of --attach.
func attached(paths []string) ([]pygent.Part, error) {
	paths = slices.Clone(paths)
	for i, path := range paths {
		if strings.TrimSpace(path) == "" {
			return nil, fmt.Errorf("--attach: the value is empty")
		}
		var err error
		if paths[i], err = pathname.Host().Read(path); err != nil {
			return nil, fmt.Errorf("--attach: %w", err)
		}
	}
	parts, err := chat.Attach(paths...)
	if err != nil {
		return nil, fmt.Errorf("--attach: %w", err)
	}
	return parts, nil
}
