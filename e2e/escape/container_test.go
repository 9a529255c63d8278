//go:build linux

package escape

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
)

// escapes are the usual ways out of a container. A script prints ESCAPED if it
// succeeds. VICTIM is the directory of the victim.
var escapes = map[string]string{
	"socket of the engine": `for s in /var/run/docker.sock /run/docker.sock /run/podman/podman.sock /run/containerd/containerd.sock; do
		[ ! -e $s ] || echo ESCAPED; done`,
	"files of the host":        `cat "$VICTIM/beside/secret" && echo ESCAPED; ls "$VICTIM" && echo ESCAPED`,
	"root of PID 1":            `ls /proc/1/root && echo ESCAPED; ls /proc/1/cwd/ && echo ESCAPED`,
	"environment of PID 1":     `cat /proc/1/environ && echo ESCAPED`,
	"memory of PID 1":          `head -c 1 /proc/1/mem && echo ESCAPED; cat /proc/1/maps && echo ESCAPED`,
	"descriptors of PID 1":     `for f in 0 1 2 3 4 5; do readlink /proc/1/fd/$f && echo ESCAPED; : >/proc/1/fd/$f && echo ESCAPED; done`,
	"program of PID 1":         `: >/proc/1/exe && echo ESCAPED; readlink /proc/1/exe && echo ESCAPED`,
	"environment of the host":  `cat /proc/[0-9]*/environ | tr '\0' '\n' | grep "^ESCAPE" && echo ESCAPED`,
	"processes of the host":    `[ "$(ls -d /proc/[0-9]* | wc -l)" -lt 20 ] || echo ESCAPED; cat /proc/[0-9]*/comm | grep dockerd && echo ESCAPED`,
	"core pattern":             `echo '|/x' >/proc/sys/kernel/core_pattern && echo ESCAPED`,
	"settings of the kernel":   `echo 1 >/proc/sys/vm/drop_caches && echo ESCAPED; echo x >/proc/sys/kernel/hostname && echo ESCAPED`,
	"modes of the kernel":      `find /proc -mindepth 1 -path '/proc/[0-9]*' -prune -o ! -type l -print | perl -lne '$n++; print "ESCAPED $_" if ! -c && chmod((stat)[2] & 07777, $_); END { print "ESCAPED: $n files" if $n < 100 }' || echo ESCAPED: no perl`,
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
	"network":                  `[ "$(ls /sys/class/net)" = lo ] || echo ESCAPED; for a in 127.0.0.1/23722 172.17.0.1/22 169.254.169.254/80 1.1.1.1/53; do (: >/dev/tcp/$a) && echo ESCAPED; done`,
	"setuid":                   `cp "$(command -v id)" /tmp/id && chmod 6755 /tmp/id; [ "$(setpriv --reuid 1234 --regid 1234 --clear-groups /tmp/id -u)" != 0 ] || echo ESCAPED`,
	"capabilities":             `grep -E '^Cap(Eff|Bnd):' /proc/self/status | grep -v 00000000000000eb && echo ESCAPED`,
	"hard links":               `ln /proc/1/environ e && echo ESCAPED; ln /etc/hostname h && echo ESCAPED; [ -x /.pygent-*/guest ] || echo ESCAPED; ln /.pygent-*/guest g && echo ESCAPED`,
	"system calls":             systemCalls,
	"end of PID 1":             `kill -9 1; kill -TERM 1; kill -STOP 1; kill -SEGV 1; true`,
	"end of all":               `kill -9 -1`,
	"priority of PID 1":        `renice -n -5 -p 1 && echo ESCAPED; echo -1000 >/proc/self/oom_score_adj && echo ESCAPED`,
	"through its own root":     `cat "/proc/self/root$VICTIM/beside/secret" && echo ESCAPED; cat "/proc/self/cwd/../../../..$VICTIM/beside/secret" && echo ESCAPED`,
	"abstract sockets":         `python3 -c 'import socket; s = socket.socket(socket.AF_UNIX); s.connect("\0/containerd-shim"); print("ESCAPED")'; [ "$(wc -l </proc/net/unix)" -lt 20 ] || echo ESCAPED`,
	"swap, clock, host's name": `date -s 2001-01-01 && echo ESCAPED; hostname escaped && echo ESCAPED`,
}

// systemCalls makes system calls that must be refused whatever their arguments
// are: ptrace of PID 1, open_by_handle_at, init_module, bpf, pivot_root, swapon,
// setns, perf_event_open, settimeofday, userfaultfd, keyctl, mount_setattr.
const systemCalls = `[ "$(uname -m)" = x86_64 ] || exit 0
perl -e 'print "ESCAPED ptrace\n" if syscall(101, 16, 1, 0, 0) != -1;
	for $n (304, 175, 321, 155, 167, 308, 298, 164, 323, 250, 442) { print "ESCAPED $n\n" if syscall($n, 0, 0, 0, 0, 0) != -1 }'`

func TestContainerIsNoWayToTheHost(t *testing.T) {
	everywhere(t, containers(), func(t *testing.T, v *victim, p place) {
		lost := make(chan pygent.RuntimeEvent, 100)
		r := p.new(t, pygent.WithEnv("VICTIM="+v.root), pygent.OnRuntimeEvent(func(e pygent.RuntimeEvent) {
			if e.Kind == pygent.RuntimeLost {
				lost <- e
			}
		}))
		for name, script := range escapes {
			t.Run(name, func(t *testing.T) { held(t, v, r, script) })
		}
		require.Empty(t, lost, "the container survives all of it")
	})
}
