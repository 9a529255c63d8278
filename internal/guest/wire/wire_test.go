package wire_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/x/pygent/internal/guest/wire"
	"github.com/x/pygent/internal/treedir"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// messages returns one message of each type, with all fields set.
func messages() []wire.Message {
	job := wire.Job{ID: "1", Command: "sleep", Running: true, ExitCode: -1, Total: 1 << 40, Procs: []wire.Proc{{PID: 7, Name: "sh"}}, Count: 1}
	return []wire.Message{
		&wire.Empty{},
		&wire.Hello{Version: 1, Workspace: "/workspace", SpillDirs: []string{"/tmp"}, Env: []string{"A=b"}, Nonce: "n", Own: true, Owner: wire.Owner{Known: true, UID: 1<<32 - 2, GID: 1},
			HostOwner: wire.HostOwner{Owner: wire.Owner{Known: true, UID: 1}, Sure: true, Dev: 1, Ino: 1<<63 - 1, Boot: "b"}},
		&wire.Welcome{Version: 1, Shell: "/bin/sh", OS: "linux", UID: 1000, Init: true, Nonce: "x", NonceOK: true, Owner: wire.Owner{Known: true, UID: 1000, GID: 100}, HostOwner: true},
		&wire.Run{Script: []byte("true"), Env: []string{"A=1"}, Timeout: time.Second, Head: 1, Tail: 2, Live: true},
		&wire.Chunk{Offset: 5, Data: []byte("abc")},
		&wire.Result{ExitCode: 137, Signal: 9, Head: []byte{0xff, 0}, Tail: []byte("t"), Total: 9, Left: []wire.Proc{{PID: 1, Name: "x"}}, LeftCount: 3},
		&job,
		&wire.Jobs{Jobs: []wire.Job{job, job}},
		&wire.OutputRequest{Job: "1", Offset: 3, Limit: 4, Wait: time.Minute},
		&wire.Output{Chunk: wire.Chunk{Offset: 1, Data: []byte("x")}, Job: job},
		&wire.Kill{Job: "2", Grace: time.Second},
		&wire.Path{Name: "a/b", Offset: 1, Limit: -1, All: true},
		&wire.Write{Name: "a", Mode: 0o755},
		&wire.Info{Name: "a", Size: 3, Mode: fs.ModeDir | 0o755, ModTime: time.Unix(1, 5), Target: "b"},
		&wire.Infos{Infos: []wire.Info{{Name: "a"}}, More: true},
		&wire.Dial{Port: 80},
		&wire.Listen{Port: 80},
		&wire.Failure{Code: 1, Text: "no"},
		&wire.Skip{Entry: 7},
		&wire.Names{Names: []string{"a", "b\xff"}},
		&wire.Made{Conflict: true, Why: "it was changed", Kept: "a.kept"},
		&wire.Step{Step: treedir.Step{
			Change: treedir.Change{Name: "a/b", Old: treedir.Item{Kind: treedir.Link, Target: "t"}, New: treedir.Item{Kind: treedir.File, Mode: 0o600, Size: 3, ModTime: -1, Content: treedir.Hash{1, 2}}},
			Times:  true, Aside: ".pygent-x", Again: true,
		}},
	}
}

func TestMessagesComeBackAsTheyWere(t *testing.T) {
	for i, m := range messages() {
		b, err := wire.Encode(nil, m)
		require.NoError(t, err)
		got := messages()[i]
		require.NoError(t, wire.Decode(b, got))
		require.Equal(t, m, got)
		require.ErrorIs(t, wire.Decode(append(b, 0), messages()[i]), wire.ErrMalformed)
		for n := range b {
			require.Error(t, wire.Decode(b[:n], messages()[i]), "%T cut to %d bytes", m, n)
		}
	}
}

func TestFieldsBeyondTheirBoundAreRefused(t *testing.T) {
	long := strings.Repeat("x", wire.MaxPath+1)
	_, err := wire.Encode(nil, &wire.Path{Name: long})
	require.ErrorIs(t, err, wire.ErrMalformed)
	claim := binary.AppendVarint(nil, 1<<40)
	require.ErrorIs(t, wire.Decode(claim, &wire.Chunk{}), wire.ErrMalformed)
}

func TestFramesAreBounded(t *testing.T) {
	huge := []byte{byte(wire.KindReply), 0xff, 0xff, 0xff, 0xff}
	_, _, err := wire.ReadFrame(bytes.NewReader(huge), wire.MaxReply)
	require.ErrorIs(t, err, wire.ErrMalformed)
	short := []byte{byte(wire.KindReply), 0, 0x40, 0, 0, 1, 2, 3}
	_, _, err = wire.ReadFrame(bytes.NewReader(short), wire.MaxReply)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

func TestFailuresKeepTheirMeaning(t *testing.T) {
	cases := []struct{ err, want error }{
		{fs.ErrNotExist, fs.ErrNotExist},
		{&fs.PathError{Op: "open", Path: "x", Err: syscall.EACCES}, fs.ErrPermission},
		{fmt.Errorf("fork: %w", syscall.EAGAIN), wire.ErrProcesses},
		{fmt.Errorf("dial: %w", syscall.ECONNREFUSED), wire.ErrRefused},
		{context.Canceled, context.Canceled},
		{errors.New(strings.Repeat("é", 5000)), nil},
	}
	for _, tc := range cases {
		b, err := wire.Encode(nil, wire.AsFailure(tc.err))
		require.NoError(t, err)
		f := &wire.Failure{}
		require.NoError(t, wire.Decode(b, f))
		if tc.want != nil {
			require.ErrorIs(t, f, tc.want)
		}
	}
	require.NoError(t, errors.Unwrap(&wire.Failure{Code: 9999}))
}

func TestBodyEndsOnlyWhereItWasEnded(t *testing.T) {
	var buf bytes.Buffer
	body := wire.NewBodyWriter(&buf)
	text := strings.Repeat("0123456789", 10000)
	_, err := io.WriteString(body, text)
	require.NoError(t, err)
	cut := buf.Len()
	require.NoError(t, body.Finish(nil))
	whole := bytes.Clone(buf.Bytes())

	got, err := io.ReadAll(wire.NewBodyReader(bytes.NewReader(whole)))
	require.NoError(t, err)
	require.Equal(t, text, string(got))
	_, err = io.ReadAll(wire.NewBodyReader(bytes.NewReader(whole[:cut])))
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)

	buf.Reset()
	body = wire.NewBodyWriter(&buf)
	require.NoError(t, body.Finish(fs.ErrPermission))
	_, err = io.ReadAll(wire.NewBodyReader(&buf))
	require.ErrorIs(t, err, fs.ErrPermission)
}

func TestSessionsCarryRequests(t *testing.T) {
	a, b := net.Pipe()
	host, err := wire.NewHost(a)
	require.NoError(t, err)
	guest, err := wire.NewGuest(b)
	require.NoError(t, err)
	defer guest.Close()
	defer host.Close()
	go func() {
		for {
			stream, err := guest.AcceptStream()
			if err != nil {
				return
			}
			kind, payload, err := wire.ReadFrame(stream, wire.MaxFrame)
			if err == nil && kind == wire.KindDial {
				m := &wire.Dial{}
				if wire.Decode(payload, m) == nil {
					_ = wire.WriteFrame(stream, wire.KindReply, m)
				}
			}
			stream.Close()
		}
	}()
	for i := range 300 {
		stream, err := host.OpenStream()
		require.NoError(t, err)
		require.NoError(t, wire.WriteFrame(stream, wire.KindDial, &wire.Dial{Port: i}))
		got := &wire.Dial{}
		require.NoError(t, wire.ReadReply(stream, got))
		require.Equal(t, i, got.Port)
		require.NoError(t, stream.Close())
	}
}

func TestHostGivesUpAGuestThatBreaksTheRules(t *testing.T) {
	frames := map[string][]byte{
		"opens a stream": {0, 1, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0},
		"pings":          {0, 2, 0, 1, 0, 0, 0, 0, 0, 0, 0, 9},
		"huge frame":     {0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 0, 0, 0},
		"other version":  {9, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0},
	}
	for name, frame := range frames {
		t.Run(name, func(t *testing.T) {
			a, b := net.Pipe()
			host, err := wire.NewHost(a)
			require.NoError(t, err)
			defer host.Close()
			_, err = b.Write(frame)
			require.NoError(t, err)
			<-host.CloseChan()
			require.NoError(t, b.Close())
		})
	}
}

// FuzzDecode feeds the decoders of all messages.
func FuzzDecode(f *testing.F) {
	for i, m := range messages() {
		b, err := wire.Encode(nil, m)
		require.NoError(f, err)
		f.Add(byte(i), b)
	}
	f.Fuzz(func(t *testing.T, which byte, b []byte) {
		all := messages()
		m := all[int(which)%len(all)]
		if wire.Decode(b, m) != nil {
			return
		}
		// A decoded message can be encoded again, and keeps its meaning.
		again, err := wire.Encode(nil, m)
		require.NoError(t, err)
		require.NoError(t, wire.Decode(again, messages()[int(which)%len(all)]))
	})
}

func TestEntriesComeBackAsTheyWere(t *testing.T) {
	entries := []treedir.Entry{
		{Name: "a", Mode: fs.ModeDir | 0o755, ModTime: 1_700_000_000_123_456_789, ChangeTime: 1_700_000_000_123_456_790, Inode: 1<<64 - 1},
		{Name: "a/b\xff", Mode: 0o644, Size: 1 << 40, ModTime: -5, ChangeTime: 5, Inode: 3, Ignores: true},
		{Name: "a/link", Mode: fs.ModeSymlink | 0o777, Target: "../x"},
		{Name: "c", Mode: fs.ModeDir, Err: &wire.Failure{Code: 3, Text: "permission denied"}},
	}
	var b bytes.Buffer
	w := wire.NewListWriter(&b)
	for _, e := range entries {
		require.NoError(t, w.Write(e))
	}
	whole := b.Len()
	r := wire.NewListReader(bytes.NewReader(b.Bytes()))
	for _, e := range entries {
		got, err := r.Next()
		require.NoError(t, err)
		require.Equal(t, e, got)
	}
	_, err := r.Next()
	require.ErrorIs(t, err, io.EOF)
	require.ErrorIs(t, entries[3].Err, fs.ErrPermission)
	for n := range whole {
		r := wire.NewListReader(bytes.NewReader(b.Bytes()[:n]))
		var err error
		for err == nil {
			_, err = r.Next()
		}
		require.Error(t, err)
	}
}

// FuzzListed feeds the reader of entries.
func FuzzListed(f *testing.F) {
	var b bytes.Buffer
	w := wire.NewListWriter(&b)
	require.NoError(f, w.Write(treedir.Entry{Name: "a", Mode: fs.ModeDir}))
	require.NoError(f, w.Write(treedir.Entry{Name: "a/b", Size: 3, Err: fs.ErrPermission}))
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		r := wire.NewListReader(bytes.NewReader(data))
		var again bytes.Buffer
		w := wire.NewListWriter(&again)
		var all []treedir.Entry
		for {
			e, err := r.Next()
			if err != nil {
				break
			}
			require.LessOrEqual(t, len(e.Name), wire.MaxTreeName)
			require.NoError(t, w.Write(e))
			all = append(all, e)
		}
		r = wire.NewListReader(&again)
		for _, e := range all {
			got, err := r.Next()
			require.NoError(t, err)
			require.Equal(t, e, got)
		}
	})
}

// FuzzFrames feeds the readers of frames, replies and bodies.
func FuzzFrames(f *testing.F) {
	var buf bytes.Buffer
	require.NoError(f, wire.WriteFrame(&buf, wire.KindReply, &wire.Dial{Port: 1}))
	f.Add(buf.Bytes())
	body := wire.NewBodyWriter(&buf)
	_, _ = body.Write([]byte("text"))
	require.NoError(f, body.Finish(nil))
	f.Add(buf.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		_ = wire.ReadReply(bytes.NewReader(b), &wire.Result{})
		_, _ = io.Copy(io.Discard, wire.NewBodyReader(bytes.NewReader(b)))
		r := bytes.NewReader(b)
		for {
			if _, _, err := wire.ReadFrame(r, wire.MaxReply); err != nil {
				return
			}
		}
	})
}

// FuzzHostSession sends the host's side of a session anything that a guest
// could send.
func FuzzHostSession(f *testing.F) {
	f.Add([]byte{0, 1, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0})
	f.Add([]byte{0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 5, 64, 0, 0, 0, 0})
	f.Add([]byte{0, 1, 0, 4, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 4, 0, 0, 0, 1, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		ours, theirs := net.Pipe()
		host, err := wire.NewHost(ours)
		require.NoError(t, err)
		sink := make(chan struct{})
		go func() {
			defer close(sink)
			_, _ = io.Copy(io.Discard, theirs)
		}()
		stream, err := host.OpenStream()
		if err == nil {
			_ = wire.WriteFrame(stream, wire.KindJobs, nil)
		}
		_ = theirs.SetWriteDeadline(time.Now().Add(time.Second))
		_, _ = theirs.Write(b)
		_ = theirs.Close()
		if stream != nil {
			_ = wire.ReadReply(stream, &wire.Jobs{})
			_ = stream.Close()
		}
		_ = host.Close()
		<-sink
	})
}

// TestEveryWriteArrives sends bodies that look like headers of the session.
func TestEveryWriteArrives(t *testing.T) {
	ours, theirs := net.Pipe()
	host, err := wire.NewHost(ours)
	require.NoError(t, err)
	defer host.Close()
	guest, err := wire.NewGuest(theirs)
	require.NoError(t, err)
	defer guest.Close()
	out, err := host.OpenStream()
	require.NoError(t, err)
	_, err = out.Write([]byte("x"))
	require.NoError(t, err)
	in, err := guest.AcceptStream()
	require.NoError(t, err)
	require.NoError(t, in.SetReadDeadline(time.Now().Add(10*time.Second)))
	_, err = io.ReadFull(in, make([]byte, 1))
	require.NoError(t, err)
	for _, fill := range []byte{0, 1, 'x'} {
		for size := range 40 {
			sent := bytes.Repeat([]byte{fill}, size)
			if size > 0 {
				sent[size-1] = 1
			}
			_, err := out.Write(sent)
			require.NoError(t, err)
			got := make([]byte, size)
			_, err = io.ReadFull(in, got)
			require.NoError(t, err, "%d bytes", size)
			require.Equal(t, sent, got)
		}
	}
}
