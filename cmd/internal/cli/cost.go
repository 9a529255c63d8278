package cli

import (
	"fmt"
	"strings"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/screen"
)

// tellCost prints what was used, if the configuration has prices or the provider
// has said what it costs.
func tellCost(cfg pygent.Config, agent *pygent.Agent) {
	used := agent.Usage()
	total := used.Total()
	if len(cfg.Prices) == 0 && used.Cost == 0 || total == (pygent.Usage{}) {
		return
	}
	line := fmt.Sprintf("· %d tokens, cost %.4f", total.Total(), used.Cost)
	if len(used.Unpriced) > 0 {
		line += " without " + strings.Join(used.Unpriced, ", ") + ", which [prices] does not have"
	}
	fmt.Fprintln(screen.Stderr(), line)
}
