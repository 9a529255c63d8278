package pygent

import (
	"cmp"
	"slices"

	"github.com/x/pygent/internal/settings"
)

// ConfigTable has settings that a program has read elsewhere than in a TOML file:
// in a start-up script, say.
type ConfigTable struct {
	Path string // where the settings are from, for errors
	Flag string // by which the user names such a source, to trust it; default "--config"
	// Project says that a stranger may have written it, as the file of a project: see
	// [ConfigSources].
	Project bool
	// Named says that the user named the source for this start, as Files of
	// [ConfigSources]: what it says holds before the setup of an agent that goes on,
	// see [Config.WithSetup].
	Named bool
	// Values are settings by key, as decoded from TOML: strings, bools, int64s,
	// float64s, []any, and map[string]any for a table such as "limits".
	Values map[string]any
	// Lines has the line of each key, as "limits.max_steps", for errors.
	Lines map[string]int
}

func tables(given []ConfigTable) (all []settings.Table) {
	for _, t := range given {
		all = append(all, settings.Table{Path: t.Path, Flag: cmp.Or(t.Flag, "--config"), Project: t.Project, Values: t.Values, Lines: t.Lines})
	}
	return all
}

// named returns the sources that the user named for this start.
func (s ConfigSources) named() []string {
	named := slices.Clone(s.Files)
	for _, t := range s.Tables {
		if t.Named {
			named = append(named, t.Path)
		}
	}
	return named
}
