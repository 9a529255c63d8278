package pygent

import (
	"fmt"
	"slices"

	"github.com/x/pygent/internal/egress"
)

// addHosts adds to the hosts that commands may reach; "none" takes back what
// weaker sources said.
func addHosts(c *Config, value any) error {
	list, err := asNames(value)
	if err != nil {
		return err
	}
	if slices.Equal(list, []string{"none"}) {
		c.Container.AllowedHosts = nil
		return nil
	}
	for i, host := range list {
		if _, err := egress.ParsePattern(host); err != nil {
			return at(fmt.Sprintf("[%d]", i), &valueError{reason: err.Error()})
		}
		if !slices.Contains(c.Container.AllowedHosts, host) {
			c.Container.AllowedHosts = append(c.Container.AllowedHosts, host)
		}
	}
	return nil
}
