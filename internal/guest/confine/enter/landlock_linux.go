package enter

import (
	"errors"
	"os"
	"strings"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"

	"github.com/x/pygent/internal/guest/confine"
)

// errNoLandlock means that the kernel cannot restrict access to files.
var errNoLandlock = errors.New("the kernel has no Landlock, or one that is too old")

// devices are the nodes of /dev that programs expect on every machine. Others
// that an ordinary user may open, such as cameras and microphones, are not among
// them.
var devices = []string{
	"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx",
	"/dev/kfd", "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset",
	"/dev/nvidia0", "/dev/nvidia1", "/dev/nvidia2", "/dev/nvidia3",
	"/dev/nvidia4", "/dev/nvidia5", "/dev/nvidia6", "/dev/nvidia7",
}

// deviceDirs are directories of such device nodes.
var deviceDirs = []string{"/dev/dri", "/dev/nvidia-caps", "/dev/pts"}

// restrict applies Landlock in one call, because a second call would forbid to
// move files between directories. A kernel without Landlock is accepted if
// namespaces hide everything else.
func restrict(p *confine.Policy, places []place) error {
	if landlockVersion() < confine.Usable {
		if p.Level == confine.Full {
			return nil
		}
		return errNoLandlock
	}
	config := landlock.V11.BestEffort()
	config.HandledAccessNet = 0 // the network stays open
	return config.Restrict(rules(p, places)...)
}

func rules(p *confine.Policy, places []place) []landlock.Rule {
	list := []landlock.Rule{
		landlock.RODirs("/proc"),
		landlock.PathAccess(ll.AccessFSReadDir, "/dev"),
		landlock.RWFiles(devices...).WithIoctlDev().IgnoreIfMissing(),
		landlock.RWDirs(deviceDirs...).WithIoctlDev().IgnoreIfMissing(),
		landlock.RWDirs("/dev/shm").WithRefer().IgnoreIfMissing(),
	}
	if p.Level == confine.Full {
		list = append(list, landlock.PathAccess(ll.AccessFSReadDir, "/"))
		if !hasPlace(places, tempDir) {
			list = append(list, writable(tempDir, true))
		}
	}
	if exe, err := os.Readlink(self); err == nil && !strings.HasPrefix(exe, "/memfd:") {
		list = append(list, landlock.ROFiles(self)) // needed where programs in memory cannot be executed: the guest is then a file
	}
	for _, place := range places {
		switch {
		case place.write:
			list = append(list, writable(place.real, place.dir))
		case place.dir:
			list = append(list, landlock.RODirs(place.real).WithResolveUnix().IgnoreIfMissing())
		default:
			list = append(list, landlock.ROFiles(place.real).IgnoreIfMissing())
		}
	}
	return list
}

// writable allows everything at a path. That includes making device nodes, which
// only root can do, and only with a capability that is dropped.
func writable(path string, dir bool) landlock.Rule {
	if !dir {
		return landlock.RWFiles(path).WithIoctlDev().IgnoreIfMissing()
	}
	return landlock.RWDirs(path).WithRefer().WithIoctlDev().WithResolveUnix().IgnoreIfMissing()
}
