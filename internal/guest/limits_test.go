package guest_test

import (
	"context"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/guest"
	"github.com/x/pygent/internal/guest/wire"
)

func TestGuestTellsWhatTheKernelKeepsItFrom(t *testing.T) {
	for name, tt := range map[string]struct {
		welcome wire.Welcome
		own     bool
		want    []string
	}{
		"nothing":            {wire.Welcome{OS: "linux", Supervised: true, Setid: "stripped"}, true, nil},
		"beside us":          {welcome: wire.Welcome{OS: "linux", Supervised: true, SetidNote: "no filter"}},
		"another system":     {welcome: wire.Welcome{OS: "darwin"}},
		"no filter":          {wire.Welcome{OS: "linux", Supervised: true, SetidNote: "no filter"}, true, []string{"setuid", "no filter"}},
		"nothing is handed":  {wire.Welcome{OS: "linux", Supervised: true, Setid: "refused"}, true, []string{"package managers"}},
		"everything at once": {wire.Welcome{OS: "linux", SetidNote: "no filter"}, true, []string{"process groups", "; ", "no filter"}},
	} {
		t.Run(name, func(t *testing.T) {
			tt.welcome.Version = wire.Version
			info := greeted(t, &tt.welcome, tt.own)
			if tt.want == nil {
				require.Empty(t, info.Limits)
			}
			for _, words := range tt.want {
				require.Contains(t, info.Limits, words)
			}
			require.Equal(t, tt.welcome.Setid, info.Setid)
			require.Equal(t, tt.welcome.SetidNote, info.SetidNote)
		})
	}
}

// greeted returns the Info of a client whose guest has sent this welcome.
func greeted(t *testing.T, w *wire.Welcome, own bool) guest.Info {
	t.Helper()
	ours, theirs := net.Pipe()
	session, err := wire.NewGuest(theirs)
	require.NoError(t, err)
	answered := make(chan error, 1)
	go func() {
		stream, err := session.AcceptStream()
		if err == nil {
			_, _, err = wire.ReadFrame(stream, wire.MaxFrame)
		}
		if err == nil {
			err = wire.WriteFrame(stream, wire.KindReply, w)
		}
		answered <- err
	}()
	c, err := guest.Connect(context.Background(), ours, guest.Config{Own: own})
	require.NoError(t, err)
	require.NoError(t, <-answered)
	require.NoError(t, c.Close())
	require.NoError(t, session.Close())
	return c.Info()
}
