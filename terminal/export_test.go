package terminal

import (
	"context"
	"os"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/screen"
)

// RunLendingHosts is [Run], for tests without a container whose commands want to
// reach hosts: lend gets what such a runtime is given to ask the person.
func RunLendingHosts(ctx context.Context, face pygent.FaceSession, lend func(pygent.HostApprovalFunc)) error {
	t, err := openTTY(ctx, face.In.(*os.File), screen.New(face.Out))
	if err != nil {
		return err
	}
	s := newSession(ctx, face, t)
	defer s.close()
	lend(s.approveHosts)
	return s.run()
}
