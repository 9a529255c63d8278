package cli

import (
	"fmt"
	"strings"

	"github.com/x/pygent"
)

// attached reads the files of --attach.
func attached(paths []string) ([]pygent.Part, error) {
	for _, path := range paths {
		if strings.TrimSpace(path) == "" {
			return nil, fmt.Errorf("--attach: the value is empty")
		}
	}
	parts, err := pygent.Attach(paths...)
	if err != nil {
		return nil, fmt.Errorf("--attach: %w", err)
	}
	return parts, nil
}
