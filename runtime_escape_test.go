package pygent_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/x/pygent"
)

// escapes are the usual ways from a container to its host. What succeeds says
// ESCAPED. HOST_FILE is a file of the host that holds "host secret", and
// HOST_DIR its directory.
var escapes = map[string]string{
	"socket of the engine": `for s in /var/run/docker.sock /run/docker.sock /run/podman/podman.sock /run/containerd/containerd.sock; do
		[ ! -e $s ] || echo ESCAPED; done`,
	"files of the host":        `cat "$HOST_FILE" && echo ESCAPED; ls "$HOST_DIR" && echo ESCAPED`,
	"root of PID 1":            `ls /proc/1/root && echo ESCAPED; ls /proc/1/cwd/ && echo ESCAPED`,
	"environment of PID 1":     `cat /proc/1/environ && echo ESCAPED`,
	"memory of PID 1":          `head -c 1 /proc/1/mem && echo ESCAPED; cat /proc/1/maps && echo ESCAPED`,
	"descriptors of PID 1":     `for f in 0 1 2 3 4 5; do readlink /proc/1/fd/$f && echo ESCAPED; : >/proc/1/fd/$f && echo ESCAPED; done`,
	"program of PID 1":         `: >/proc/1/exe && echo ESCAPED; readlink /proc/1/exe && echo ESCAPED`,
	"environment of the host":  `cat /proc/[0-9]*/environ | tr '\0' '\n' | grep "^PYGENT_TEST_" && echo ESCAPED`,
	"processes of the host":    `[ "$(ls -d /proc/[0-9]* | wc -l)" -lt 20 ] || echo ESCAPED; cat /proc/[0-9]*/comm | grep dockerd && echo ESCAPED`,
	"core pattern":             `echo '|/x' >/proc/sys/kernel/core_pattern && echo ESCAPED`,
	"settings of the kernel":   `echo 1 >/proc/sys/vm/drop_caches && echo ESCAPED; echo x >/proc/sys/kernel/hostname && echo ESCAPED`,
	"system requests":          `echo h >/proc/sysrq-trigger && echo ESCAPED`,
	"uevent helper":            `echo /x >/sys/kernel/uevent_helper && echo ESCAPED`,
	"memory of the kernel":     `[ -z "$(head -c 1 /proc/kcore | tr '\0' x)" ] || echo ESCAPED; cat /proc/kallsyms /sys/firmware/* | grep -v '^0000000000000000' | grep -q . && echo ESCAPED`,
	"disk":                     `mknod /tmp/disk b 254 0 && echo ESCAPED; mknod /workspace/disk b 8 0 && echo ESCAPED; mknod /tmp/mem c 1 1 && echo ESCAPED`,
	"devices":                  `for d in vda sda nvme0n1 mem kmem kmsg fuse kvm net/tun; do [ ! -e /dev/$d ] || echo ESCAPED; done`,
	"mount":                    `mount -t tmpfs x /mnt && echo ESCAPED; mount -t proc x /mnt && echo ESCAPED; mount --bind /proc /mnt && echo ESCAPED`,
	"remount":                  `mount -o remount,rw /sys && echo ESCAPED; mount -o remount,rw /proc/sys && echo ESCAPED; umount /workspace && echo ESCAPED; umount /proc/kcore && echo ESCAPED`,
	"namespaces":               `unshare -m true && echo ESCAPED; unshare -U true && echo ESCAPED; unshare -n true && echo ESCAPED; nsenter -t 1 -m true && echo ESCAPED`,
	"control groups":           `for f in $(find /sys/fs/cgroup/ -name '*.limit_in_bytes' -o -name pids.max -o -name memory.max -o -name cgroup.procs -o -name release_agent -o -name notify_on_release); do echo 1 >$f && echo ESCAPED; done; for d in /sys/fs/cgroup /sys/fs/cgroup/*; do mkdir $d/new && [ -e $d/new/cgroup.procs ] && echo ESCAPED; done`,
	"raw sockets":              "python3 -c 'import socket; socket.socket(socket.AF_INET, socket.SOCK_RAW, 1); print(\"ESCAPED\")'; python3 -c 'import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW); print(\"ESCAPED\")'",
	"network":                  `[ "$(ls /sys/class/net)" = lo ] || echo ESCAPED; for a in 127.0.0.1/23750 127.0.0.1/23722 172.17.0.1/22 169.254.169.254/80 1.1.1.1/53; do (: >/dev/tcp/$a) && echo ESCAPED; done`,
	"setuid":                   `cp "$(command -v id)" /tmp/id && chmod 6755 /tmp/id; [ "$(setpriv --reuid 1234 --regid 1234 --clear-groups /tmp/id -u)" != 0 ] || echo ESCAPED`,
	"capabilities":             `grep -E '^Cap(Eff|Bnd):' /proc/self/status | grep -v 00000000000000eb && echo ESCAPED`,
	"hard links":               `ln /proc/1/environ e && echo ESCAPED; ln /etc/hostname h && echo ESCAPED; ln /.pygent/guest g && echo ESCAPED`,
	"system calls":             systemCalls,
	"end of PID 1":             `kill -9 1; kill -TERM 1; kill -STOP 1; kill -SEGV 1; true`,
	"end of all":               `kill -9 -1`,
	"priority of PID 1":        `renice -n -5 -p 1 && echo ESCAPED; echo -1000 >/proc/self/oom_score_adj && echo ESCAPED`,
	"through its own root":     `cat "/proc/self/root$HOST_FILE" && echo ESCAPED; cat "/proc/self/cwd/../../../..$HOST_FILE" && echo ESCAPED`,
	"abstract sockets":         `python3 -c 'import socket; s = socket.socket(socket.AF_UNIX); s.connect("\0/containerd-shim"); print("ESCAPED")'; [ "$(wc -l </proc/net/unix)" -lt 20 ] || echo ESCAPED`,
	"swap, clock, host's name": `date -s 2001-01-01 && echo ESCAPED; hostname escaped && echo ESCAPED`,
}

// systemCalls makes calls that are refused whatever their arguments: attach to
// PID 1, open_by_handle_at, init_module, bpf, pivot_root, swapon, setns,
// perf_event_open, settimeofday, userfaultfd, keyctl, mount_setattr.
const systemCalls = `[ "$(uname -m)" = x86_64 ] || exit 0
perl -e 'print "ESCAPED ptrace\n" if syscall(101, 16, 1, 0, 0) != -1;
	for $n (304, 175, 321, 155, 167, 308, 298, 164, 323, 250, 442) { print "ESCAPED $n\n" if syscall($n, 0, 0, 0, 0, 0) != -1 }'`

func TestContainerIsNoWayToTheHost(t *testing.T) {
	for _, c := range runtimeCases() {
		if c.name != "docker" && c.name != "remote" {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("PYGENT_TEST_HOST_SECRET", "host secret")
			host := hostFile(t)
			lost := make(chan pygent.RuntimeEvent, 100)
			r := c.new(t, pygent.WithEnv("HOST_FILE="+host, "HOST_DIR="+filepath.Dir(host)), pygent.WithRuntimeEvents(func(e pygent.RuntimeEvent) {
				if e.Kind == pygent.RuntimeLost {
					lost <- e
				}
			}))
			for name, script := range escapes {
				t.Run(name, func(t *testing.T) {
					res := bash(t, r, script)
					require.False(t, res.TimedOut)
					require.NotContains(t, res.Output, "ESCAPED")
					require.NotContains(t, res.Output, "host secret")
					require.Equal(t, "alive\n", bash(t, r, "echo alive").Output)
				})
			}
			require.Empty(t, lost, "the container survives all of it")
		})
	}
}

// hostFile makes a file of this machine that no container may see.
func hostFile(t *testing.T) string {
	t.Helper()
	name := filepath.Join(realTempDir(t), "secret")
	require.NoError(t, os.WriteFile(name, []byte("host secret"), 0o644))
	return name
}

func TestLinksOfAContainerLeadNowhere(t *testing.T) {
	for _, c := range runtimeCases() {
		if c.name == "busybox" { // it has no ln
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			host := hostFile(t)
			dir := t.TempDir()
			r := c.new(t, pygent.WithWorkspace(dir))
			links := map[string]string{
				"file": host, "dir": filepath.Dir(host), "up": "../../../../../../../.." + host, "self": "/proc/self/root" + host, "one": "/proc/1/root" + host,
			}
			for name, target := range links {
				bash(t, r, "ln -s "+target+" "+name+" && mkdir -p in && ln -s ../"+name+" in/"+name)
			}
			attack := func(r pygent.Runtime) {
				for _, name := range []string{"file", "dir/secret", "up", "self", "one", "in/file", "in/dir/secret", "in/up"} {
					attackThrough(t, r, name, host)
				}
			}
			attack(r)
			require.NoError(t, r.ExportFile(t.Context(), ".", filepath.Join(t.TempDir(), "all")))
			require.NoError(t, r.Cleanup())
			attack(c.new(t, pygent.WithWorkspace(dir))) // before its container runs
		})
	}
}

// attackThrough uses a link of the workspace in all ways. None may reach the
// file of the host that it names.
func attackThrough(t *testing.T, r pygent.Runtime, link, host string) {
	t.Helper()
	ctx := t.Context()
	data, err := r.ReadFile(ctx, link)
	require.Error(t, err, link)
	require.Empty(t, data)
	_, _, err = r.(pygent.RangeReader).ReadFileRange(ctx, link, 0, 100)
	require.Error(t, err, link)
	out := filepath.Join(t.TempDir(), "out")
	require.Error(t, r.ExportFile(ctx, link, out), link)
	require.NoFileExists(t, out)
	require.Error(t, r.WriteFile(ctx, link, []byte("written")), link)
	if strings.HasSuffix(link, "/secret") { // an upload to a link replaces it
		require.Error(t, r.UploadFile(ctx, "go.mod", link), link)
		require.Error(t, r.UploadFile(ctx, "examples", link), link)
	}
	_, err = r.Bash(ctx, "true", pygent.BashDir(filepath.Dir(link)+"/dir"))
	require.Error(t, err, link)

	kept, err := os.ReadFile(host)
	require.NoError(t, err)
	require.Equal(t, "host secret", string(kept))
	require.Len(t, entries(t, filepath.Dir(host)), 1)
}

func TestContainerCannotChangeTheGuest(t *testing.T) {
	const attack = `echo '#!/bin/sh' >/.pygent/guest; rm -f /.pygent/guest; mv /.pygent/guest /tmp; mv /.pygent /tmp/p; chmod 777 /.pygent/guest; chown 1234 /.pygent/guest; true`
	requireDocker(t)
	cache, err := os.UserCacheDir()
	require.NoError(t, err)
	for _, c := range runtimeCases() {
		if c.name != "docker" && c.name != "remote" {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			before := guestsIn(t, cache)
			r := c.new(t)
			bash(t, r, attack)
			require.Equal(t, "alive\n", bash(t, r, "echo alive").Output)
			require.NoError(t, r.Cleanup())
			if len(before) > 0 {
				require.Equal(t, before, guestsIn(t, cache))
			}
			require.Equal(t, "alive\n", bash(t, c.new(t), "echo alive").Output)
		})
	}
}

// TestContainerThatStarvesItsGuestIsReplaced lowers the limits of PID 1, which
// the kernel lets any process of the same user do.
func TestContainerThatStarvesItsGuestIsReplaced(t *testing.T) {
	for _, limit := range []string{"nofile", "nproc", "as", "data", "cpu", "fsize", "stack", "memlock"} {
		t.Run(limit, func(t *testing.T) {
			requireDocker(t)
			r := newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(testImage()))
			bash(t, r, "echo kept >f; prlimit --pid 1 --"+limit+"=1:1")
			res, err := r.Bash(t.Context(), "true") // it may be the one that finds out
			require.NoError(t, err, res.Note)
			require.Equal(t, "kept\n", bash(t, r, "cat f").Output)
		})
	}
}

// guestsIn describes the guests that are kept in a cache.
func guestsIn(t *testing.T, cache string) map[string]fs.FileMode {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(cache, "pygent", "guest-*"))
	require.NoError(t, err)
	found := map[string]fs.FileMode{}
	for _, name := range names {
		info, err := os.Stat(name)
		require.NoError(t, err)
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(string(data), "\x7fELF"), name)
		found[name] = info.Mode()
	}
	return found
}
