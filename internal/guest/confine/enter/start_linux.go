// Package enter confines the process that calls it to a [confine.Policy]. Only
// the guest's program uses it, because it changes the whole process.
package enter

import (
	"fmt"
	"os"
	"runtime"
	"strconv"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"

	"github.com/x/pygent/internal/guest/confine"
	"github.com/x/pygent/internal/guest/wire"
)

// self is the guest's program.
const self = "/proc/self/exe"

// Start is the main function of a program that was started as [confine.Name]. It
// confines this process and executes the program again, as [confine.Confined]. It
// returns only if that fails.
//
// The execution also clears the process's memory and drops the capabilities that
// the setup needed.
func Start() error {
	p, err := readPolicy()
	if err == nil {
		err = apply(p, publicSettings())
	}
	if err != nil {
		return err
	}
	return os.NewSyscallError("exec", unix.Exec(self, []string{confine.Confined}, os.Environ()))
}

// Try is the main function of a program that was started as [confine.TryName]. It
// does the same as Start, except for the execution, and except that it finds and mounts
// only one file of /etc, in the way in which Start does so with all that are public.
// Those are hundreds for root, and would take most of the time.
func Try() error {
	if _, err := os.Stdout.WriteString(strconv.Itoa(landlockVersion()) + "\n"); err != nil {
		return err
	}
	p, err := readPolicy()
	if err != nil {
		return err
	}
	return apply(p, settings{paths: []string{resolverFile}, links: make(map[string]string)})
}

func readPolicy() (*confine.Policy, error) {
	kind, payload, err := wire.ReadFrame(os.Stdin, confine.MaxPolicy)
	if err != nil {
		return nil, fmt.Errorf("read the policy: %w", err)
	}
	if kind != wire.KindConfine {
		return nil, fmt.Errorf("read the policy: %w: frame of kind %d", wire.ErrMalformed, kind)
	}
	p := &confine.Policy{}
	return p, wire.Decode(payload, p)
}

// apply confines the calling thread and whatever it executes. The caller must be
// locked to the thread.
func apply(p *confine.Policy, etc settings) error {
	runtime.LockOSThread()
	// The new root is made for all its users, whatever our umask is. Commands
	// keep the original umask.
	defer unix.Umask(unix.Umask(0o022))
	places := places(p, etc.paths)
	if p.Level == confine.Full {
		if p.MapUser {
			if err := mapUser(p.UID, p.GID); err != nil {
				return fmt.Errorf("map the user: %w", err)
			}
		}
		if err := enterRoot(p, places, etc.links); err != nil {
			return fmt.Errorf("make a root directory: %w", err)
		}
	}
	if err := dropCapabilities(); err != nil {
		return fmt.Errorf("drop capabilities: %w", err)
	}
	if err := leaveKeyrings(); err != nil {
		return err
	}
	return restrict(p, places)
}

// mapUser maps this process's ids to the same ids in its new user namespace. The
// parent cannot do that if this process is closed to other processes of the user.
func mapUser(uid, gid int) error {
	for _, f := range []struct{ name, content string }{
		{"setgroups", "deny"}, // without it the kernel lets no ordinary user map a group
		{"uid_map", fmt.Sprintf("%d %d 1", uid, uid)},
		{"gid_map", fmt.Sprintf("%d %d 1", gid, gid)},
	} {
		if err := os.WriteFile("/proc/self/"+f.name, []byte(f.content), 0); err != nil {
			return err
		}
	}
	return nil
}

// keptCapabilities are those of a container, and the right to listen on any port.
// They matter for root only: an ordinary user has none of them.
var keptCapabilities = map[uintptr]bool{
	unix.CAP_CHOWN: true, unix.CAP_DAC_OVERRIDE: true, unix.CAP_FOWNER: true,
	unix.CAP_SETGID: true, unix.CAP_SETUID: true, unix.CAP_KILL: true, unix.CAP_NET_BIND_SERVICE: true,
}

// dropCapabilities removes the capabilities that the next program must not have.
// With all of root's capabilities it could get around the confinement, for
// example by loading a kernel module or by making a device node for the disk.
func dropCapabilities() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	if os.Geteuid() != 0 {
		return nil // an ordinary user's capabilities do not survive the execution
	}
	for c := uintptr(0); c <= 63; c++ {
		has, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, c, 0, 0, 0)
		if err != nil {
			break // the kernel knows no further capabilities
		}
		if has == 0 || keptCapabilities[c] {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil {
			return os.NewSyscallError("prctl", err)
		}
	}
	return clearInheritable()
}

// clearInheritable keeps the next program from inheriting capabilities.
func clearInheritable() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return os.NewSyscallError("capget", err)
	}
	data[0].Inheritable, data[1].Inheritable = 0, 0
	return os.NewSyscallError("capset", unix.Capset(&header, &data[0]))
}

// landlockVersion returns the version of Landlock that the kernel has, or 0.
func landlockVersion() int {
	version, err := ll.LandlockGetABIVersion()
	if err != nil {
		return 0
	}
	return version
}
