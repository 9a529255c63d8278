package pygent

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/x/pygent/internal/checkpoint"
	"github.com/x/pygent/internal/sessiondir"
)

// SessionLimits bound what is kept of sessions. For each, zero means the default and
// [NoLimit] none.
type SessionLimits struct {
	Max      int           `json:"max,omitempty"`      // how many; default 500
	MaxBytes int64         `json:"max_size,omitempty"` // of all files together, with those of checkpoints; default 4 GiB
	MaxAge   time.Duration `json:"max_age,omitempty"`  // since a session was used last; default 90 days
}

// The defaults of [SessionLimits].
const (
	DefaultMaxSessions     = 500
	DefaultMaxSessionBytes = 4 << 30
	DefaultMaxSessionAge   = 90 * 24 * time.Hour
)

// PruneSessions removes the sessions in a directory that were used longest ago, until
// the others are within the limits, and returns the ids of those that it has removed.
// checkpoints is the directory that checkpoint.Keep was given for them, empty if
// there is none: what sessions have there counts and goes with them, also that of
// sessions which were removed otherwise. It never removes one that is open, nor, for
// its size, the one that was used last. Several processes may prune at once. It stops
// when ctx ends.
func PruneSessions(ctx context.Context, dir, checkpoints string, limits SessionLimits) (removed []string, err error) {
	err = cmp.Or(checkLimit("Max", limits.Max), checkLimit("MaxBytes", limits.MaxBytes), checkLimit("MaxAge", limits.MaxAge))
	if err == nil {
		removed, err = checkpoint.PruneSessions(ctx, checkpoints, dir, sessiondir.Limits{ // for which a negative limit is none
			Number: cmp.Or(limits.Max, DefaultMaxSessions),
			Bytes:  cmp.Or(limits.MaxBytes, DefaultMaxSessionBytes),
			Age:    cmp.Or(limits.MaxAge, DefaultMaxSessionAge),
		})
	}
	if err != nil {
		return removed, fmt.Errorf("prune sessions: %w", err)
	}
	return removed, nil
}
