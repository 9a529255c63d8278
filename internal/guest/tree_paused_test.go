package guest_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/guest"
	"github.com/x/pygent/internal/treedir"
)

func TestAPausedContainerIsNotWaitedFor(t *testing.T) {
	r := container(t, debianImage(t), containerOptions{config: guest.Config{KeepAlive: time.Hour}})
	fillTree(t, r.client)
	tree := guest.Tree{Client: r.client}
	for name, call := range map[string]func(ctx context.Context) error{
		"scan": func(ctx context.Context) error { return tree.Scan(ctx, func(treedir.Entry) error { return nil }) },
		"read": func(ctx context.Context) error {
			return tree.Read(ctx, func(yield func(string) bool) { yield("a/one") }, func(string, treedir.Opened, error) error { return nil })
		},
		"make": func(ctx context.Context) error {
			s := treedir.Step{Change: treedir.Change{Name: "new", New: treedir.Item{Kind: treedir.File, Size: 1 << 20}}, Aside: ".pygent-012345678"}
			return tree.Make(ctx, s, strings.NewReader(strings.Repeat("x", 1<<20)))
		},
		"sync": tree.Sync,
	} {
		t.Run(name, func(t *testing.T) {
			// A busy kernel refuses a pause now and then ("unable to freeze").
			require.Eventually(t, func() bool { return r.engine.ContainerPause(t.Context(), r.id) == nil }, 20*time.Second, 10*time.Millisecond)
			defer func() { require.NoError(t, r.engine.ContainerUnpause(context.Background(), r.id)) }()
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			require.ErrorIs(t, call(ctx), context.DeadlineExceeded)
		})
	}
	require.NotEmpty(t, scan(t, tree))
}
