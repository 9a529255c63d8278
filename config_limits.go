package pygent

import (
	"cmp"
	"fmt"
	"reflect"
	"strings"
	"time"
)

// limitsTable is where a configuration has its limits.
const limitsTable = "limits."

// isLimit reports whether the setting is one of [LimitsConfig]. A project's file
// may set each of these, and can only lower it.
func (s *setting) isLimit() bool { return strings.HasPrefix(s.key, limitsTable) }

// askedLimit is what a project's file says of a limit. It has its effect once
// everything is known that the user said.
type askedLimit struct {
	setting *setting
	where   string       // the file, the line, and the key as it is written there
	limits  LimitsConfig // the value in its field; the others are zero
}

// inForce returns the limits with the defaults where nothing was said. Zero is
// then what has no limit at all.
func (c LimitsConfig) inForce() LimitsConfig {
	c.MaxSteps = cmp.Or(c.MaxSteps, defaultMaxSteps)
	c.MaxToolCalls = cmp.Or(c.MaxToolCalls, toolCallsFor(c.MaxSteps))
	c.StepTimeout = cmp.Or(c.StepTimeout, DefaultTaskStepTimeout) // which steps of tasks have
	c.MaxTasks = cmp.Or(c.MaxTasks, DefaultMaxTasks)
	c.TaskTimeout = cmp.Or(c.TaskTimeout, DefaultTaskTimeout)
	return c
}

// lowerLimits applies the limits of a project's file, which is perhaps a
// stranger's: those that are lower than the user's, or than the defaults where
// the user set none. What the user set in a place that goes before the project's
// file holds as it is.
func (l *configLoad) lowerLimits() {
	held := reflect.ValueOf(l.config.Limits.inForce())
	limits := reflect.ValueOf(&l.config.Limits).Elem()
	for _, asked := range l.asked {
		values := reflect.ValueOf(asked.limits)
		for i := range values.NumField() {
			value, holds := values.Field(i), held.Field(i)
			switch {
			case value.IsZero():
			case !holds.IsZero() && value.Int() > holds.Int():
				l.config.Warnings = append(l.config.Warnings, fmt.Sprintf(
					"%s = %v has no effect: a file found in the working directory may only lower a limit, and %v holds; if you trust the file, name it with --config",
					asked.where, inWords(value), inWords(holds)))
			case !l.users[asked.setting]:
				limits.Field(i).SetInt(value.Int())
			}
		}
	}
}

// inWords is a limit as a person writes it.
func inWords(limit reflect.Value) any {
	if d, ok := limit.Interface().(time.Duration); ok {
		return d
	}
	return limit.Int()
}
