package faces

import (
	"context"
	"time"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/safecall"
)

// describeWithin is how long a banner waits for the description of the runtime.
const describeWithin = 3 * time.Second

// Describe asks an agent's runtime what it is. Nothing is known of one that cannot say, or
// does not answer within three seconds.
func Describe(ctx context.Context, agent *pygent.Agent) pygent.RuntimeInfo {
	d, ok := pygent.RuntimeAs[pygent.Describer](agent.Runtime())
	if !ok {
		return pygent.RuntimeInfo{}
	}
	ctx, cancel := context.WithTimeout(ctx, describeWithin)
	defer cancel()
	info, _ := safecall.Outlive(ctx, func() (pygent.RuntimeInfo, error) { return d.Describe(ctx), nil })
	return info
}
