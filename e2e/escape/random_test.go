//go:build linux

package escape

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
)

// TestRandomTreesStayInside makes trees of hostile names and links in each place.
// A program there swaps files, directories and links all the time, while the test
// copies files between the place and this machine in every way. ESCAPE_TIME is
// how long it takes in all, and ESCAPE_SEED repeats a run.
func TestRandomTreesStayInside(t *testing.T) {
	lasting, err := time.ParseDuration(value("ESCAPE_TIME", "6s"))
	require.NoError(t, err)
	seed, err := strconv.ParseUint(value("ESCAPE_SEED", strconv.FormatInt(time.Now().UnixNano(), 10)), 10, 64)
	require.NoError(t, err)
	t.Logf("ESCAPE_SEED=%d", seed)
	all := places()
	everywhere(t, all, func(t *testing.T, v *victim, p place) {
		end := time.Now().Add(lasting / time.Duration(len(all)))
		for round := uint64(0); round == 0 || time.Now().Before(end); round++ {
			a := &attacker{T: t, victim: v, place: p, Rand: rand.New(rand.NewPCG(seed, round))}
			a.round()
		}
	})
}

func value(name, otherwise string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return otherwise
}

// attacker makes one random tree and uses it.
type attacker struct {
	*testing.T
	*victim
	*rand.Rand
	place place
	names []string // of what is in the workspace
}

func (a *attacker) round() {
	dir := dirOf(a.T, map[string]string{"given/file": "given"})
	r := a.place.new(a.T, pygent.WithWorkspace(dir), pygent.WithEnv("V="+a.root))
	script := a.tree()
	bash(a.T, r, script)
	racer, err := r.(pygent.JobRunner).StartJob(a.Context(), a.racer())
	require.NoError(a, err)
	for range 30 {
		a.use(r)
	}
	_, err = r.(pygent.JobRunner).KillJob(a.Context(), racer.ID)
	require.NoError(a, err)
	require.Equal(a, "alive\n", bash(a.T, r, "echo alive"), script)
	require.NoError(a, r.Cleanup(), script)
	a.silentTree(a.T, dir)
}

// tree returns a script that fills the workspace.
func (a *attacker) tree() string {
	var s strings.Builder
	for range 4 + a.IntN(12) {
		name := a.name()
		if len(a.names) > 0 && a.IntN(2) == 0 {
			name = path.Join(a.pick(a.names), name)
		}
		a.names = append(a.names, name)
		switch quoted := a.quote(name); a.IntN(5) {
		case 0, 1:
			fmt.Fprintf(&s, "ln -sfn -- %s %s\n", a.quote(a.target()), quoted)
		case 2:
			fmt.Fprintf(&s, "mkdir -p -- %s\n", quoted)
		case 3:
			fmt.Fprintf(&s, "mkfifo -m 666 -- %s\n", quoted)
		default:
			fmt.Fprintf(&s, "[ -p %[1]s ] || echo evil >%[1]s\n", quoted) // writing to a pipe would block
		}
	}
	return "{ " + s.String() + "} 2>/dev/null; true"
}

// name returns a hostile name, or one of a few names, so that many of them
// collide.
func (a *attacker) name() string {
	hostile := []string{"-rf", "a\nb", "\x1b[2J", "\xff\xfe", "...", " ", "*", "$(id)", strings.Repeat("n", 255), "authorized_keys", ".ssh", "home", "\u202e", "C:", `a\b`}
	if a.IntN(4) == 0 {
		return a.pick(hostile)
	}
	return a.pick([]string{"a", "b", "c", "d"})
}

// target returns the target of a link: mostly a path to the victim, in one of
// many forms.
func (a *attacker) target() string {
	up := strings.Repeat("../", 1+a.IntN(12))
	goal := a.root + "/" + a.pick([]string{"home/.ssh", "home/.ssh/authorized_keys", "beside/secret", "home", "tmp/other", "beside", ""})
	switch a.IntN(6) {
	case 0:
		return goal
	case 1:
		return up + strings.TrimPrefix(goal, "/")
	case 2:
		return a.pick([]string{"/proc/self/root", "/proc/self/cwd", "/proc/1/root"}) + goal
	case 3:
		return a.pick([]string{"/proc/self/environ", "/proc/self/fd", "/proc/self/mem", "/proc/self/exe", "/dev/stdin", "/dev/zero"})
	case 4:
		return a.pick([]string{"a", "b", "c", "d"}) + "/" + up + strings.TrimPrefix(goal, "/")
	default:
		return up + a.pick([]string{"a", "b", "c/d", "."})
	}
}

// racer returns a script that keeps swapping files, directories and links of the
// same names.
func (a *attacker) racer() string {
	return `mkdir -p race; cd race; mkdir -p real/d; echo evil >real/f; ln -sfn "$V/home" link; ln -sfn "$V/home/.ssh/id_ed25519" f
exec perl -e 'while (1) { rename "real", "x"; rename "link", "real"; rename "f", "g"; rename "real", "link"; rename "x", "real"; rename "g", "f"; symlink "/proc/self/environ", "e"; rename "e", "real/f"; unlink "real/f"; open F, ">real/f"; print F "evil"; close F }'`
}

// use copies files between the workspace and this machine, or delegates some.
// Each of these may fail.
func (a *attacker) use(r pygent.Runtime) {
	ctx, cancel := context.WithTimeout(a.Context(), time.Minute)
	defer cancel()
	name := a.path()
	switch a.IntN(9) {
	case 0:
		data, _ := r.ReadFile(ctx, name)
		a.silent(a.T, "reading "+name, string(data))
	case 1:
		_ = r.WriteFile(ctx, name, []byte("evil"))
	case 2, 3:
		out := filepath.Join(a.TempDir(), "out")
		_ = r.ExportFile(ctx, name, out)
		a.silentTree(a.T, filepath.Dir(out))
	case 4:
		_ = r.UploadFile(ctx, "main_test.go", name)
	case 5:
		_ = r.UploadFile(ctx, dirOf(a.T, map[string]string{"a/b": "x", "authorized_keys": "evil", "d/c": "x"}), name)
	case 6:
		data, _, _ := r.(pygent.RangeReader).ReadFileRange(ctx, name, 0, 1<<10)
		a.silent(a.T, "reading "+name, string(data))
	case 7:
		_, _ = r.Bash(ctx, "true", pygent.BashDir(name))
	default:
		a.silent(a.T, "a task", delegate(a.T, r, []string{a.path(), name, a.path()}))
	}
}

// path returns a path that an attacker asks for.
func (a *attacker) path() string {
	races := []string{"race", "race/real", "race/real/f", "race/real/d", "race/f", "race/real/.ssh/id_ed25519", "race/link/.ssh"}
	switch a.IntN(6) {
	case 0:
		return a.pick(races)
	case 1:
		return "."
	case 2:
		return path.Join(a.pick(a.names), a.pick([]string{".ssh/authorized_keys", "authorized_keys", "secret", "a", "../a"}))
	case 3:
		return a.pick([]string{"..", "/", a.root, "given/../../../..", "given/file/", "", a.target()})
	default:
		return a.pick(a.names)
	}
}

func (a *attacker) pick(of []string) string { return of[a.IntN(len(of))] }

// quote returns a name as a word for bash.
func (a *attacker) quote(name string) string {
	var s strings.Builder
	for _, b := range []byte(name) {
		fmt.Fprintf(&s, `\x%02x`, b)
	}
	return "$'" + s.String() + "'"
}
