package terminal

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
)

// aboutFiles is a question about a change of so many bytes.
func aboutFiles(size int) *menu {
	const line = "a line of a file that has as many characters as lines of files have\n"
	m := &menu{items: []item{itemYes, itemNo}}
	m.changes(pygent.ApprovalRequest{Changes: []pygent.FileChange{{Path: "a.txt", After: strings.Repeat(line, size/len(line)), Line: 1}}}, "here")
	m.body = strings.Repeat(line, size/len(line))
	return m
}

func TestAMenuIsLaidOutAnewForAnotherWidth(t *testing.T) {
	s, m := &session{}, aboutFiles(1000)
	wide := m.rows(s, 120, 20)
	require.Equal(t, wide, m.rows(s, 120, 20))
	narrow := m.rows(s, 40, 20)
	require.NotEqual(t, wide, narrow)
	require.Equal(t, wide, m.rows(s, 120, 20))
}

// The first frame lays out what the menu is about, and the others do not.
func BenchmarkFramesOfAMenu(b *testing.B) {
	for _, frames := range []int{1, 100} {
		b.Run(fmt.Sprint(frames, " frames of 1 MiB"), func(b *testing.B) {
			for b.Loop() {
				s, m := &session{}, aboutFiles(1<<20)
				for range frames {
					m.rows(s, 100, 40)
				}
			}
		})
	}
}
