package pygent

import (
	"fmt"
	"slices"

	"github.com/x/pygent/internal/egress"
)

// addHosts adds to the hosts that commands may reach; "none" takes back what was
// said before it, in weaker sources and in the same list: a host that the user
// allows for good is added to it.
func addHosts(c *Config, value any) error {
	list, err := asNames(value)
	if err != nil {
		return err
	}
	for i, host := range list {
		if host == "none" {
			c.Container.AllowedHosts = nil
			continue
		}
		if _, err := egress.ParsePattern(host); err != nil {
			return at(fmt.Sprintf("[%d]", i), &valueError{reason: err.Error()})
		}
		if !slices.Contains(c.Container.AllowedHosts, host) {
			c.Container.AllowedHosts = append(c.Container.AllowedHosts, host)
		}
	}
	return nil
}
