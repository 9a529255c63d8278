package pygent

import (
	"fmt"
	"slices"
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
		if err := checkHost(host); err != nil {
			return at(fmt.Sprintf("[%d]", i), &valueError{reason: err.Error()})
		}
		if !slices.Contains(c.Container.AllowedHosts, host) {
			c.Container.AllowedHosts = append(c.Container.AllowedHosts, host)
		}
	}
	return nil
}
