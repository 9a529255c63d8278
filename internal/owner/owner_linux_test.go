package owner

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStates(t *testing.T) {
	dir := t.TempDir()
	before := place()
	before.Boot = "earlier"
	require.NoError(t, Open(dir, before).Err())
	self := Open(dir, place())
	require.NoError(t, self.Err())
	child := exec.Command("true")
	require.NoError(t, child.Run())
	running := exec.Command("cat")
	stdin, err := running.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, running.Start())
	defer func() {
		require.NoError(t, stdin.Close())
		require.NoError(t, running.Wait())
	}()
	otherStart, _, err := startTime(running.Process.Pid)
	require.NoError(t, err)

	for name, tt := range map[string]struct {
		change func(p *process)
		want   State
	}{
		"this process":                     {func(*process) {}, Alive},
		"another process":                  {func(p *process) { p.pid, p.start = running.Process.Pid, otherStart }, Alive},
		"a process that ended":             {func(p *process) { p.pid = child.Process.Pid }, Dead},
		"a number used again":              {func(p *process) { p.start = "1" }, Dead},
		"a process without time":           {func(p *process) { p.start = "" }, Unknown},
		"another namespace":                {func(p *process) { p.Namespace = "pid:[1]" }, Unknown},
		"no namespace":                     {func(p *process) { p.Namespace = "" }, Unknown},
		"the host was renamed":             {func(p *process) { p.Host = "another" }, Alive},
		"an earlier boot":                  {func(p *process) { p.Boot = "earlier" }, Dead},
		"a boot nobody saw here":           {func(p *process) { p.Boot = "another" }, Unknown},
		"no boot":                          {func(p *process) { p.Boot = "" }, Unknown},
		"an earlier boot elsewhere":        {func(p *process) { p.Boot, p.Machine = "earlier", "another" }, Unknown},
		"an earlier boot, another host":    {func(p *process) { p.Boot, p.Host = "earlier", "another" }, Unknown},
		"an earlier boot, no machine":      {func(p *process) { p.Boot, p.Machine = "earlier", "" }, Unknown},
		"a boot that leads out of records": {func(p *process) { p.Boot = "earlier\x00" }, Unknown},
		"no process":                       {func(p *process) { p.pid = 0 }, Unknown},
		"every process":                    {func(p *process) { p.pid = -1 }, Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			p := self.process
			tt.change(&p)
			require.Equal(t, tt.want, self.StateOf(p.String()))
		})
	}
	for _, name := range []string{"", "nonsense", strings.Repeat("/", 5), "vm/boot/pid:[1]/12/34", strings.Repeat("x", 1<<20), self.Name() + "/"} {
		require.Equal(t, Unknown, self.StateOf(name))
	}
}

// TestMachinesWithEqualNames uses two machines with the same host name, such as
// two laptops, or a machine and its clone. Neither may take processes of the
// other for dead.
func TestMachinesWithEqualNames(t *testing.T) {
	at := func(machine, boot string) Place {
		return Place{Host: "laptop", Machine: machine, Boot: boot, Namespace: "pid:[1]"}
	}
	home := t.TempDir() // shared, so that both machines even have the same key
	a, b := Open(home, at("a", "1")), Open(home, at("b", "2"))
	require.Equal(t, Unknown, b.StateOf(a.Name()))
	require.Equal(t, Unknown, a.StateOf(b.Name()))
	clone := Open(t.TempDir(), at("a", "3"))
	require.Equal(t, Unknown, clone.StateOf(a.Name()))
	require.Equal(t, Unknown, a.StateOf(clone.Name()))
	require.Equal(t, Dead, Open(home, at("a", "4")).StateOf(a.Name()), "it was started anew")
}

// TestAProcessIsAliveToItsThreads would fail under qemu-user, where each thread sees
// another start of the process in /proc/self/stat.
func TestAProcessIsAliveToItsThreads(t *testing.T) {
	self := Open(t.TempDir(), ThisPlace())
	require.NoError(t, self.Err())
	const threads = 8
	begun, states := make(chan struct{}), make(chan State)
	for range threads {
		go func() {
			runtime.LockOSThread() // without an unlock the thread ends with the goroutine
			<-begun
			states <- self.StateOf(self.Name())
		}()
	}
	close(begun)
	for range threads {
		require.Equal(t, Alive, <-states)
	}
}

// TestNothingIsMadeInAHomeOfAnotherUser is about root with the HOME of a user.
func TestNothingIsMadeInAHomeOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make a directory of another user")
	}
	home := t.TempDir()
	require.NoError(t, os.Chown(home, 1000, 1000))
	_, err := OpenPrivate(filepath.Join(home, ".cache", "pygent"))

	require.ErrorContains(t, err, home+" belongs to another user")
	require.NoDirExists(t, filepath.Join(home, ".cache"))

	require.NoError(t, os.Mkdir(filepath.Join(home, "ours"), 0o700))
	dir, err := OpenPrivate(filepath.Join(home, "ours", "pygent"))
	require.NoError(t, err)
	require.NoError(t, dir.Close())
}
