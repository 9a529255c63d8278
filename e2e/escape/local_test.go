//go:build linux

package escape

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
)

// localAttacks go from a confined local runtime to the rest of its machine. H is
// the home of the victim, V the directory around it, P the process of pygent.
// Writing to the home may succeed, because commands may have a home of their own
// at that path. The test checks afterwards that the victim's is unchanged.
var localAttacks = map[string]string{
	"keys":                    `for f in .ssh/id_ed25519 .ssh/authorized_keys .aws/credentials .npmrc .netrc .docker/config.json .kube/config .git-credentials .config/gh/hosts.yml .pygent.toml documents/diary; do cat "$H/$f" && echo ESCAPED; done`,
	"files beside the home":   `cat "$V/beside/secret" && echo ESCAPED; ls "$V/beside" && echo ESCAPED`,
	"start of the next shell": `for f in .bashrc .profile .bash_logout .zshrc .zshenv .config/fish/config.fish .config/autostart/x.desktop; do echo evil >>"$H/$f"; done`,
	"removal":                 `rm -rf "$H/documents" "$H/.ssh"; mv "$H/.ssh" "$H/.ssh2" && echo ESCAPED`,
	"more keys":               `echo ssh-ed25519 AAAA evil >>"$H/.ssh/authorized_keys" && echo ESCAPED`,
	"modes":                   `chmod 777 "$H/.ssh/id_ed25519" "$H/.ssh"; touch -d 2001-01-01 "$H/.ssh/id_ed25519"; chmod 000 "$H"; chmod 755 "$H"`,
	"links":                   `ln -s "$H/.ssh" s; cat s/id_ed25519 && echo ESCAPED; ln "$H/.ssh/id_ed25519" hard && echo ESCAPED; cp -a "$H/.ssh" copy && echo ESCAPED`,
	"environment of pygent":   `cat /proc/$P/environ && echo ESCAPED; cat /proc/$PPID/environ /proc/[0-9]*/environ | tr '\0' '\n' | grep ESCAPE && echo ESCAPED`,
	"own environment":         `env`,
	"memory of pygent":        `head -c 1 /proc/$P/mem && echo ESCAPED; cat /proc/$P/maps && echo ESCAPED; ls -l /proc/$P/fd && echo ESCAPED; ls /proc/$P/root/ && echo ESCAPED; ls /proc/$P/cwd/ && echo ESCAPED`,
	"other processes":         `kill -0 $P && echo ESCAPED; grep -l dockerd /proc/[0-9]*/comm && echo ESCAPED`,
	"end of all":              `kill -9 -1`,
	"tracing":                 `perl -e 'print "ESCAPED\n" if syscall(101, 16, $ENV{P}, 0, 0) != -1'`,
	"temporary files":         `cat /tmp/* "$V"/tmp/*/* "$V"/tmp/*; echo x >"$V/tmp/pygent-other/new"; echo x >>/tmp/pygent-escaped`,
	"engine":                  `for s in /var/run/docker.sock /run/docker.sock /run/containerd/containerd.sock "$V/beside/socket"; do perl -MIO::Socket::UNIX -e 'print "ESCAPED\n" if IO::Socket::UNIX->new(Peer => $ARGV[0])' $s; done`,
	"abstract sockets":        `perl -MSocket -e 'socket(S, PF_UNIX, SOCK_STREAM, 0) or die; print "ESCAPED\n" if connect(S, pack("S", AF_UNIX) . "\0$ENV{ABSTRACT}")'`,
	"system":                  `for f in /etc/passwd /etc/profile.d/x.sh /usr/local/bin/pygent-escaped /var/spool/cron/x /opt/x; do (echo x >>$f) && echo ESCAPED; done; mkdir /root/pygent-escaped && echo ESCAPED`,
	"kernel":                  `echo '|/x' >/proc/sys/kernel/core_pattern && echo ESCAPED; echo h >/proc/sysrq-trigger && echo ESCAPED; echo 1 >/sys/kernel/uevent_helper && echo ESCAPED`,
	"devices":                 `head -c 1 /dev/vda && echo ESCAPED; head -c 1 /dev/mem && echo ESCAPED; mknod disk b 254 0 && echo ESCAPED`,
	"namespaces":              `nsenter -t 1 -m ls / && echo ESCAPED; nsenter -t $P -m -U ls / && echo ESCAPED; unshare -Urm sh -c 'umount -l "$H"; cat "$H/.ssh/id_ed25519"' && echo ESCAPED`,
	"mounts":                  `mount --bind "$H" . && echo ESCAPED; mount -t tmpfs x "$H" && echo ESCAPED; umount -l / && echo ESCAPED; unshare -Urm sh -c 'mount -t tmpfs x /mnt; mkdir /mnt/n /mnt/o; pivot_root /mnt/n /mnt/o; cat "/mnt/o$H/.ssh/id_ed25519"' && echo ESCAPED`,
	"setuid":                  `cp /bin/true suid; chmod 6755 suid; perl -e 'chmod 06755, "suid"'; install -m 4755 /bin/true suid2; perl -e 'use Fcntl; sysopen(F, "suid3", O_CREAT|O_WRONLY, 04755)'; find . -perm /6000 | grep . && echo ESCAPED`,
	"queue of the kernel":     `perl -e 'print "ESCAPED\n" if syscall(425, 8, "\0" x 120) != -1'`,
	"settings of git":         `git config --global core.pager evil; git config --system core.pager evil && echo ESCAPED`,
	"program of pygent":       `: >/proc/$P/exe && echo ESCAPED; echo x >>"$(readlink /proc/$P/exe)" && echo ESCAPED`,
}

// TestLocalRuntimeIsNoWayToTheRest attacks from the local runtime, with all the
// protection that this kernel has.
func TestLocalRuntimeIsNoWayToTheRest(t *testing.T) {
	v := here(t)
	before := v.state(t)
	socket, err := net.Listen("unix", v.path("beside/socket"))
	require.NoError(t, err)
	defer socket.Close()
	abstract := "pygent-escape-" + strconv.Itoa(os.Getpid())
	other, err := net.Listen("unix", "@"+abstract)
	require.NoError(t, err)
	defer other.Close()
	r := open(t, pygent.NewLocalRuntime, []pygent.RuntimeOption{
		pygent.WithEnv("H="+v.path("home"), "V="+v.root, "P="+strconv.Itoa(os.Getpid()), "ABSTRACT="+abstract),
	})
	for name, script := range localAttacks {
		t.Run(name, func(t *testing.T) { held(t, v, r, script) })
	}
	require.NoError(t, socket.Close())
	require.Equal(t, before, v.state(t), "the files of the victim")
	require.NoFileExists(t, "/tmp/pygent-escaped")
}

// TestLocalRuntimeOfAnOrdinaryUser attacks as a user who is not root.
func TestLocalRuntimeOfAnOrdinaryUser(t *testing.T) {
	if os.Getuid() != 0 {
		return // The tests above were run by an ordinary user already.
	}
	const nobody = 65534
	t.Setenv(planted, "")
	code := again(func(cmd *exec.Cmd, v *victim) error {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		program := v.path("escape.test")
		data, err := os.ReadFile(cmd.Path)
		if err != nil {
			return err
		}
		if err := os.WriteFile(program, data, 0o755); err != nil {
			return err
		}
		cmd.Path, cmd.Dir = program, v.root
		return filepath.WalkDir(v.root, func(path string, _ os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			return os.Lchown(path, nobody, nobody)
		})
	}, "-test.run=^TestLocalRuntimeIsNoWayToTheRest$", "-test.v")
	require.Zero(t, code)
}
