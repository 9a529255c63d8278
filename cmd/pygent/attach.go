package main

import (
	"fmt"
	"strings"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/screen"
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

// tellCost prints what was used, if the configuration has prices.
func tellCost(cfg pygent.Config, agent *pygent.Agent) {
	used := agent.Usage()
	if len(cfg.Prices) == 0 || used.Total() == (pygent.Usage{}) {
		return
	}
	total := used.Total()
	line := fmt.Sprintf("· %d tokens, cost %.4f", total.Total(), used.Cost)
	if len(used.Unpriced) > 0 {
		line += " without " + strings.Join(used.Unpriced, ", ") + ", which [prices] does not have"
	}
	fmt.Fprintln(screen.Stderr(), line)
}
