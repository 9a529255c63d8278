package enter

import (
	"cmp"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/x/pygent/internal/guest/confine"
)

// place is a file or directory that the guest may reach.
type place struct {
	path  string // as it was named
	real  string // free of symbolic links
	write bool
	dir   bool
}

// systemPaths are what every program needs, and holds nothing of users.
var systemPaths = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/sys",
	"/nix", "/gnu/store", "/run/current-system", "/run/opengl-driver", "/home/linuxbrew/.linuxbrew",
	"/var/lib/dpkg", "/var/lib/apt/lists", "/var/lib/rpm", "/var/cache/man",
	// By which names of users and hosts are found.
	"/run/nscd", "/var/lib/sss/pipes", "/run/systemd/resolve", "/run/resolvconf",
}

// places returns what a policy names, and the system's own, in the order in
// which they can be mounted: each after what holds it. The links are what
// leads to some of it.
func places(p *confine.Policy) (list []place, links map[string]string) {
	var owned []string // by commands, so that a link in there leads wherever they like
	write := append([]string{p.Temp}, p.Write...)
	slices.SortStableFunc(write, func(a, b string) int { return len(a) - len(b) })
	for _, path := range write {
		if place, ok := find(path, true, owned); ok {
			list = append(list, place)
			owned = append(owned, place.real)
		}
	}
	public, links := settings()
	for _, path := range slices.Concat(systemPaths, public, p.Read) {
		if place, ok := find(path, false, owned); ok {
			list = append(list, place)
		}
	}
	slices.SortStableFunc(list, func(a, b place) int {
		return cmp.Or(strings.Compare(a.real, b.real), compareBool(b.write, a.write))
	})
	return list, links
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	default:
		return -1
	}
}

// find looks for a path. One that leads through what commands own is left out:
// what it leads to was perhaps their choice, and what is in there can be
// reached anyway.
func find(path string, write bool, owned []string) (place, bool) {
	if !filepath.IsAbs(path) {
		return place{}, false
	}
	real, ok := resolve(path, owned)
	if !ok {
		return place{}, false
	}
	info, err := os.Lstat(real)
	if err != nil {
		return place{}, false
	}
	return place{path: filepath.Clean(path), real: real, write: write, dir: info.IsDir()}, true
}

// maxLinks bounds the symbolic links on the way to a place.
const maxLinks = 40

// resolve follows the symbolic links of an absolute path, none of which may lie
// in an owned directory.
func resolve(path string, owned []string) (real string, ok bool) {
	real = "/"
	rest := strings.Split(path, "/")
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		if name == "" || name == "." {
			continue
		}
		if slices.ContainsFunc(owned, func(dir string) bool { return within(real, dir) }) {
			return "", false
		}
		next := filepath.Join(real, name) // also for "..": real holds no links
		target, err := os.Readlink(next)
		if err != nil {
			real = next
			continue
		}
		if links++; links > maxLinks {
			return "", false
		}
		if filepath.IsAbs(target) {
			real = "/"
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return real, true
}

// covered reports whether one of the places already gives what p does.
func covered(p place, by []place) bool {
	return slices.ContainsFunc(by, func(q place) bool {
		return within(p.real, q.real) && (q.write || !p.write)
	})
}

// within reports whether path is dir or lies in it.
func within(path, dir string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
}

// settings returns what /etc holds for everybody.
func settings() (paths []string, links map[string]string) {
	s := public{links: make(map[string]string)}
	if os.Geteuid() != 0 || s.walk("/etc") {
		s.parts = []string{"/etc"}
	}
	return append(s.parts, "/etc/resolv.conf"), s.links
}

// public collects what anybody may read of a directory. Root could read the
// rest, where keys and passwords are.
type public struct {
	parts []string          // files, and directories of which all is public
	links map[string]string // symbolic links in other directories
}

// walk reports whether all of a directory is public. If not, it adds what is.
func (s *public) walk(dir string) (all bool) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	found := public{links: make(map[string]string)}
	all = true
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		info, err := entry.Info()
		switch {
		case err != nil:
			all = false
		case info.Mode()&os.ModeSymlink != 0:
			found.links[path], _ = os.Readlink(path)
		case info.IsDir() && info.Mode()&0o005 == 0o005:
			if found.walk(path) {
				found.parts = append(found.parts, path)
			} else {
				all = false
			}
		case !info.IsDir() && info.Mode()&0o004 != 0:
			found.parts = append(found.parts, path)
		default:
			all = false
		}
	}
	if !all {
		s.parts = append(s.parts, found.parts...)
		maps.Copy(s.links, found.links)
	}
	return all
}
