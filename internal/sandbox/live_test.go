package sandbox

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/guest/wire"
)

func FuzzLiveOutput(f *testing.F) {
	f.Add([]byte("grüße 日本 🙂"), uint16(3), uint8(2))
	f.Add([]byte(strings.Repeat("a\xff", 9000)), uint16(5000), uint8(7))
	f.Fuzz(func(t *testing.T, data []byte, piece uint16, every uint8) {
		l := &liveOutput{news: make(chan struct{}, 1)}
		end, text := int64(0), ""
		take := func(last bool) {
			chunk, ok := l.next(last)
			if !ok {
				return
			}
			require.True(t, utf8.ValidString(chunk.Text))
			require.NotEmpty(t, chunk.Text)
			require.LessOrEqual(t, len(chunk.Text), maxChunk)
			require.Equal(t, end+chunk.Skipped, chunk.Offset)
			end = l.passed
			text += chunk.Text
		}
		for at, n := 0, 0; at < len(data); n++ {
			p := data[at:min(at+int(piece)+1, len(data))]
			l.write(int64(at), p)
			require.LessOrEqual(t, len(l.waiting), maxWaiting)
			at += len(p)
			if n%(int(every)+1) == 0 {
				take(false)
			}
		}
		take(true)
		if len(data) <= maxChunk && utf8.Valid(data) {
			require.Equal(t, string(data), text)
		}
	})
}

func TestLiveOutputKeepsItsPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Duration
		begun := time.Now()
		l := passOn(func(Chunk) { at = append(at, time.Since(begun)) })
		for i := range 105 { // as a guest that ignores the pace
			l.write(int64(i), []byte("x"))
			time.Sleep(10 * time.Millisecond)
		}
		l.end()
		require.Len(t, at, 9)
		for i := range at[:8] {
			require.Equal(t, time.Duration(i+1)*wire.LiveEvery, at[i])
		}
	})
}

func TestLiveOutputIsOverAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []Chunk
		l := passOn(func(c Chunk) { got = append(got, c) })
		l.write(0, []byte("first"))
		l.write(100, []byte("after a gap"))
		l.end()
		l.write(111, []byte("too late"))
		time.Sleep(time.Minute)
		require.Equal(t, []Chunk{{Offset: 100, Text: "after a gap", Skipped: 100}}, got)
	})
}

func TestLiveOutputGivesUpACallThatStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		l := passOn(func(Chunk) { <-release })
		l.write(0, []byte("x"))
		begun := time.Now()
		l.end()
		require.Equal(t, outputGrace, time.Since(begun))
		close(release)
	})
}

func TestNoCallOfLiveOutputBeginsAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		l := passOn(func(Chunk) { calls.Add(1); time.Sleep(5 * time.Second) })
		l.write(0, []byte("x"))
		time.Sleep(time.Second)
		l.write(1, []byte("y"))
		l.end() // Bash returns here
		before := calls.Load()
		time.Sleep(time.Minute)
		require.Equal(t, before, calls.Load())
	})
}
