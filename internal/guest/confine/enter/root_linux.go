package enter

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/x/pygent/internal/guest/confine"
)

// oldRoot is where the machine's root directory is mounted while the new one is
// set up.
const oldRoot = "/.old"

// Where programs expect the directory for temporary files and the devices.
const (
	tempDir   = "/tmp"
	deviceDir = "/dev"
)

// enterRoot gives this process a new root directory. The process must be in a
// mount namespace of its own. The new root holds only the places, at the same
// paths as on the machine, and the links.
func enterRoot(p *confine.Policy, places []place, links map[string]string) error {
	maps.Copy(links, rootLinks())
	if err := switchRoot(p.Temp); err != nil {
		return err
	}
	if err := mountSystem(); err != nil {
		return err
	}
	if err := mountPlaces(p, places); err != nil {
		return err
	}
	for name, target := range links {
		if err := makeLink(target, name); err != nil {
			return err
		}
	}
	// /proc is read-only, because it holds settings of the machine's kernel,
	// which root can change there even without capabilities.
	if err := seal("/proc", unix.MOUNT_ATTR_RDONLY, 0); err != nil {
		return err
	}
	if err := unix.Unmount(oldRoot, unix.MNT_DETACH); err != nil {
		return &os.PathError{Op: "umount", Path: oldRoot, Err: err}
	}
	if err := os.Remove(oldRoot); err != nil {
		return err
	}
	return seal("/", unix.MOUNT_ATTR_RDONLY, 0)
}

// rootLinks returns the symbolic links in the root directory, such as /bin.
func rootLinks() map[string]string {
	links := map[string]string{"/var/tmp": tempDir, "/var/run": "/run"}
	entries, err := os.ReadDir("/")
	if err != nil {
		return links
	}
	for _, entry := range entries {
		name := "/" + entry.Name()
		if target, err := os.Readlink(name); err == nil {
			links[name] = target
		}
	}
	return links
}

// switchRoot makes an empty directory in memory the new root, with the old root
// at oldRoot. It uses the directory at as the mount point for a moment.
func switchRoot(at string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return &os.PathError{Op: "make private", Path: "/", Err: err}
	}
	if err := mount("tmpfs", at, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755,size=16m"); err != nil {
		return err
	}
	if err := os.Mkdir(at+oldRoot, 0o700); err != nil {
		return err
	}
	if err := unix.PivotRoot(at, at+oldRoot); err != nil {
		return &os.PathError{Op: "pivot_root", Path: at, Err: err}
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	for _, dir := range []string{"/proc", "/dev", "/run", "/var", "/home", "/etc", "/mnt", "/srv"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// mountSystem mounts the file systems that are not shared with the machine:
// /proc, /dev, and shared memory.
func mountSystem() error {
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	if err := mount("proc", "/proc", "proc", flags, ""); err != nil {
		return err
	}
	for _, dir := range []string{"/dev/shm", "/dev/pts"} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	if err := mount("shm", "/dev/shm", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777"); err != nil {
		return err
	}
	// A new instance does not contain the terminals of the user.
	if err := mount("devpts", "/dev/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620"); err != nil {
		return err
	}
	for name, target := range map[string]string{
		"/dev/ptmx": "pts/ptmx", "/dev/fd": "/proc/self/fd",
		"/dev/stdin": "/proc/self/fd/0", "/dev/stdout": "/proc/self/fd/1", "/dev/stderr": "/proc/self/fd/2",
	} {
		if err := os.Symlink(target, name); err != nil {
			return err
		}
	}
	for _, path := range append(slices.Clone(devices), deviceDirs...) {
		if _, err := os.Lstat(path); err == nil {
			continue
		}
		info, err := os.Lstat(oldRoot + path)
		if err != nil {
			continue
		}
		if err := bind(path, path, info.IsDir()); err != nil {
			return err
		}
	}
	return nil
}

// mountPlaces mounts the places at their paths.
func mountPlaces(p *confine.Policy, places []place) error {
	shown := []place{}
	if !hasPlace(places, tempDir) {
		if err := bind(p.Temp, tempDir, true); err != nil {
			return err
		}
		if err := seal(tempDir, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV, unix.AT_RECURSIVE); err != nil {
			return err
		}
	}
	for _, place := range places {
		if !covered(place, shown) {
			if err := place.mount(); err != nil {
				return err
			}
			shown = append(shown, place)
		}
	}
	for _, place := range places {
		if err := place.link(); err != nil {
			return err
		}
	}
	return nil
}

// mount mounts one place.
func (p place) mount() error {
	if err := bind(p.real, p.real, p.dir); err != nil {
		return err
	}
	flags := uint64(unix.MOUNT_ATTR_NOSUID)
	if !within(p.real, deviceDir) { // below /dev there are only the devices that the policy names
		flags |= unix.MOUNT_ATTR_NODEV
	}
	if !p.write {
		flags |= unix.MOUNT_ATTR_RDONLY
	}
	return seal(p.real, flags, unix.AT_RECURSIVE)
}

// link makes the path under which a place was named lead to the place. If that
// path lies inside of another place, the link exists already.
func (p place) link() error {
	if p.path == p.real {
		return nil
	}
	return makeLink(p.real, p.path)
}

// makeLink makes a symbolic link, unless something is there already.
func makeLink(target, name string) error {
	if _, err := os.Lstat(name); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.Symlink(target, name)
}

// bind mounts a path of the old root in the new one.
func bind(from, to string, dir bool) error {
	if err := makePoint(to, dir); err != nil {
		return fmt.Errorf("make a place for %s: %w", from, err)
	}
	return mount(oldRoot+from, to, "", unix.MS_BIND|unix.MS_REC, "")
}

// makePoint makes a file or directory to mount something on.
func makePoint(path string, dir bool) error {
	if _, err := os.Lstat(path); err == nil {
		return nil
	}
	if dir {
		return os.MkdirAll(path, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, nil, 0o644)
}

func mount(source, target, kind string, flags uintptr, data string) error {
	if err := unix.Mount(source, target, kind, flags, data); err != nil {
		return &os.PathError{Op: "mount", Path: target, Err: err}
	}
	return nil
}

// seal sets attributes of an existing mount.
func seal(path string, attributes uint64, flags uint) error {
	attr := &unix.MountAttr{Attr_set: attributes}
	if err := unix.MountSetattr(unix.AT_FDCWD, path, flags, attr); err != nil {
		return &os.PathError{Op: "mount_setattr", Path: path, Err: err}
	}
	return nil
}

// hasPlace reports whether path is one of the places, or lies in one.
func hasPlace(places []place, path string) bool {
	return slices.ContainsFunc(places, func(p place) bool { return p.real == path || p.real == "/" })
}
