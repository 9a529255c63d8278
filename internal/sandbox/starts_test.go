package sandbox_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/sandbox"
)

func TestASecondCommandThatFindsNothingToRunInIsTheLast(t *testing.T) {
	notReady := fmt.Errorf("run true: %w", sandbox.ErrNotReady)
	never := fmt.Errorf("%w: no such image", sandbox.ErrStart)
	twice := fmt.Errorf("%w: 2 commands in a row could not begin: %w", sandbox.ErrStart, notReady)
	for name, tt := range map[string]struct {
		calls []error // nil for a command that began
		ends  bool    // the last one
		why   string  // what is said of the run
	}{
		"none":                      {nil, false, ""},
		"one that began":            {[]error{nil}, false, ""},
		"one that did not":          {[]error{notReady}, false, notReady.Error()},
		"two that did not":          {[]error{notReady, notReady}, true, twice.Error()},
		"not in a row":              {[]error{notReady, nil, notReady}, false, ""},
		"in a row after one":        {[]error{nil, notReady, notReady}, true, ""},
		"one that never will":       {[]error{never}, true, never.Error()},
		"one that will not again":   {[]error{nil, never}, true, ""},
		"one of another kind":       {[]error{errors.New("exit")}, false, ""},
		"another kind in between":   {[]error{notReady, errors.New("exit"), notReady}, true, twice.Error()},
		"three that did not at all": {[]error{notReady, notReady, notReady}, true, strings.Replace(twice.Error(), "2", "3", 1)},
	} {
		t.Run(name, func(t *testing.T) {
			var s sandbox.Starts
			var err error
			for _, of := range tt.calls {
				if err = nil; of == nil {
					s.Began()
				} else {
					err = s.Failed(of)
				}
			}
			require.Equal(t, tt.ends, errors.Is(err, sandbox.ErrStart), err)
			require.Equal(t, tt.why, s.Why(err))
		})
	}
}
