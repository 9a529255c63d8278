package guest_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/checkpoint/objstore"
	"github.com/x/pygent/internal/guest"
	"github.com/x/pygent/internal/guest/wire"
	"github.com/x/pygent/internal/treedir"
)

// hostile returns a client of a guest that answers each request about a tree
// with these bytes, in a body that is framed properly.
func hostile(t testing.TB, answer []byte) guest.Tree {
	ours, theirs := net.Pipe()
	session, err := wire.NewGuest(theirs)
	require.NoError(t, err)
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			stream, err := session.AcceptStream()
			if err != nil {
				return
			}
			kind, _, err := wire.ReadFrame(stream, wire.MaxFrame)
			switch {
			case err != nil:
			case kind == wire.KindHello:
				_ = wire.WriteFrame(stream, wire.KindReply, &wire.Welcome{Version: wire.Version})
			default:
				_ = wire.WriteFrame(stream, wire.KindReply, nil)
				body := wire.NewBodyWriter(stream)
				_, _ = body.Write(answer)
				_ = body.Finish(nil)
			}
			_ = stream.Close()
		}
	}()
	c, err := guest.Connect(context.Background(), ours, guest.Config{})
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = c.Close()
		_ = session.Close()
		<-served
	})
	return guest.Tree{Client: c}
}

// listed encodes entries, and pieces of files after those that have one.
func listed(t testing.TB, parts ...any) []byte {
	t.Helper()
	var b bytes.Buffer
	w := wire.NewListWriter(&b)
	for _, part := range parts {
		switch part := part.(type) {
		case treedir.Entry:
			require.NoError(t, w.Write(part))
		case string:
			require.NoError(t, wire.WritePiece(&b, []byte(part)))
		}
	}
	return b.Bytes()
}

func TestHostileListingsAreRefused(t *testing.T) {
	file := func(name string) treedir.Entry { return treedir.Entry{Name: name, Mode: 0o644, Size: 1} }
	for name, answer := range map[string][]byte{
		"a name that leads out": listed(t, file("../x")),
		"an absolute name":      listed(t, file("/etc/passwd")),
		"in no directory":       listed(t, file("a/b")),
		"twice":                 listed(t, file("a"), file("a")),
		"not in order":          listed(t, file("b"), file("a")),
		"no name":               listed(t, file("")),
		"a NUL":                 listed(t, file("a\x00b")),
		"cut":                   listed(t, file("abc"))[:5],
		"a large claim":         {0xff, 0xff, 0xff, 0xff, 0x0f},
		"a name of names":       {8, 0xff, 0xff, 3, 0, 0, 0, 0, 0},
		"noise":                 bytes.Repeat([]byte{0x80}, 1000),
	} {
		t.Run(name, func(t *testing.T) {
			s, err := objstore.Open(t.TempDir())
			require.NoError(t, err)
			defer s.Close()
			_, _, err = s.Take(t.Context(), hostile(t, answer), nil, objstore.TakeOptions{})
			require.Error(t, err)
		})
	}
}

func TestHostileFilesAreRefused(t *testing.T) {
	file := treedir.Entry{Name: "a", Mode: 0o644, Size: 3}
	other := treedir.Entry{Name: "b", Mode: 0o644, Size: 3}
	read := func(answer []byte) (text string, err error) {
		err = hostile(t, answer).Read(t.Context(), slices.Values([]string{"a"}), func(_ string, f treedir.Opened, err error) error {
			if err != nil {
				return err
			}
			data, err := io.ReadAll(f)
			text = string(data)
			return err
		})
		return text, err
	}
	text, err := read(listed(t, file, "ab", "c", "", file))
	require.NoError(t, err)
	require.Equal(t, "abc", text)
	for name, answer := range map[string][]byte{
		"another file":     listed(t, other, "abc", "", other),
		"another's end":    listed(t, file, "abc", "", other),
		"more than it has": listed(t, file, "abc", "d", "", file),
		"no end":           listed(t, file, "abc"),
		"no description":   listed(t, file, "abc", ""),
		"nothing":          nil,
		"a negative size":  listed(t, treedir.Entry{Name: "a", Size: -1}, "", file),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := read(answer)
			require.ErrorIs(t, err, wire.ErrMalformed)
		})
	}
}

// FuzzTree has a guest answer with anything.
func FuzzTree(f *testing.F) {
	dir := treedir.Entry{Name: "d", Mode: 0o755 | 1<<31}
	file := treedir.Entry{Name: "d/f", Mode: 0o644, Size: 3, Ignores: true}
	f.Add(listed(f, dir, file))
	f.Add(listed(f, file, "abc", "", file))
	f.Fuzz(func(t *testing.T, answer []byte) {
		tree := hostile(t, answer)
		_ = tree.Scan(t.Context(), func(treedir.Entry) error { return nil })
		_ = tree.Read(t.Context(), slices.Values([]string{"d/f", "g"}), func(_ string, file treedir.Opened, err error) error {
			if err == nil {
				_, err = file.Stat()
			}
			if err == nil {
				_, err = io.Copy(io.Discard, file)
			}
			return err
		})
	})
}
