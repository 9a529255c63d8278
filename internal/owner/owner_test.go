package owner_test

import (
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/owner"
)

func TestStates(t *testing.T) {
	if runtime.GOOS != "linux" {
		require.Equal(t, owner.Unknown, owner.StateOf(owner.Current()))
		return
	}
	fields := strings.Split(owner.Current(), "/")
	with := func(i int, value string) string {
		changed := append([]string{}, fields...)
		changed[i] = value
		return strings.Join(changed, "/")
	}
	child := exec.Command("true")
	require.NoError(t, child.Run())
	for name, tt := range map[string]struct {
		owner string
		want  owner.State
	}{
		"this process":           {owner.Current(), owner.Alive},
		"a process that ended":   {with(3, strconv.Itoa(child.Process.Pid)), owner.Dead},
		"a number used again":    {with(4, "1"), owner.Dead},
		"before the last boot":   {with(1, "another"), owner.Dead},
		"another machine":        {with(0, "another"), owner.Unknown},
		"another namespace":      {with(2, "pid:[1]"), owner.Unknown},
		"nonsense":               {"nonsense", owner.Unknown},
		"nothing":                {"", owner.Unknown},
		"a process without time": {with(4, ""), owner.Unknown},
	} {
		require.Equal(t, tt.want, owner.StateOf(tt.owner), name)
	}
}
