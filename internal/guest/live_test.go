package guest_test

import (
	"context"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/guest"
	"github.com/x/pygent/internal/guest/wire"
)

func TestOutputOfAHostileGuestIsRefused(t *testing.T) {
	for name, chunks := range map[string][]wire.Chunk{
		"too much at once": {{Data: make([]byte, wire.MaxLive+1)}},
		"again":            {{Offset: 5, Data: []byte("abc")}, {Offset: 7, Data: []byte("x")}},
		"before the start": {{Offset: -1, Data: []byte("abc")}},
		"at the very end":  {{Offset: 1<<63 - 2, Data: []byte("abc")}},
	} {
		t.Run(name, func(t *testing.T) {
			ours, theirs := net.Pipe()
			session, err := wire.NewGuest(theirs)
			require.NoError(t, err)
			served := make(chan struct{})
			go func() {
				defer close(served)
				for frames := []wire.Message{&wire.Welcome{Version: wire.Version}, nil}; len(frames) > 0; frames = frames[1:] {
					stream, err := session.AcceptStream()
					if err != nil {
						return
					}
					_, _, _ = wire.ReadFrame(stream, wire.MaxFrame)
					if frames[0] != nil {
						_ = wire.WriteFrame(stream, wire.KindReply, frames[0])
						continue
					}
					for _, c := range chunks {
						_ = wire.WriteFrame(stream, wire.KindChunk, &c)
					}
				}
			}()
			c, err := guest.Connect(context.Background(), ours, guest.Config{})
			require.NoError(t, err)
			_, err = c.Run(context.Background(), guest.Command{Script: "true", OnOutput: func(int64, []byte) {}})
			require.ErrorIs(t, err, wire.ErrMalformed)
			require.NoError(t, c.Close())
			require.NoError(t, session.Close())
			<-served
		})
	}
}
