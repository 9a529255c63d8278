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
	path  string // as the policy named it
	real  string // the same without symbolic links
	write bool
	dir   bool
}

// systemPaths are needed by every program and hold no data of users.
var systemPaths = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/sys",
	"/nix", "/gnu/store", "/run/current-system", "/run/opengl-driver", "/home/linuxbrew/.linuxbrew",
	"/var/lib/dpkg", "/var/lib/apt/lists", "/var/lib/rpm", "/var/cache/man",
	// Sockets and files through which user and host names are looked up.
	"/run/nscd", "/var/lib/sss/pipes", "/run/systemd/resolve", "/run/resolvconf",
}

// resolverFile is where programs find the servers that look up names.
const resolverFile = "/etc/resolv.conf"

// places returns the paths of a policy, those of the system, and those of its
// settings, in the order in which they can be mounted: a directory comes before what
// is in it.
func places(p *confine.Policy, settings []string) (list []place) {
	var owned []string // by commands, which could put a link there that leads anywhere
	write := append([]string{p.Temp}, p.Write...)
	slices.SortStableFunc(write, func(a, b string) int { return len(a) - len(b) })
	for _, path := range write {
		if place, ok := find(path, true, owned); ok {
			list = append(list, place)
			owned = append(owned, place.real)
		}
	}
	for _, path := range slices.Concat(systemPaths, settings, p.Read) {
		if place, ok := find(path, false, owned); ok {
			list = append(list, place)
		}
	}
	slices.SortStableFunc(list, func(a, b place) int {
		return cmp.Or(strings.Compare(a.real, b.real), compareBool(b.write, a.write))
	})
	return list
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

// find looks up a path. It leaves out a path that leads through a directory which
// commands own: a command may have chosen where it leads, and what is really in
// that directory can be reached anyway.
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

// maxLinks is the largest number of symbolic links that are followed for one
// path.
const maxLinks = 40

// resolve follows the symbolic links of an absolute path. It fails if one of them
// lies in an owned directory.
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
		next := filepath.Join(real, name) // safe also for "..", since real has no symbolic links
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

// covered reports whether one of the places already gives the access of p.
func covered(p place, by []place) bool {
	return slices.ContainsFunc(by, func(q place) bool {
		return within(p.real, q.real) && (q.write || !p.write)
	})
}

// within reports whether path is dir or lies in it.
func within(path, dir string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
}

// settings are parts of /etc.
type settings struct {
	paths []string
	links map[string]string // symbolic links that lead to some of them, by path
}

// publicSettings returns the parts of /etc that every user may read.
func publicSettings() settings {
	s := public{links: make(map[string]string)}
	if os.Geteuid() != 0 || s.walk("/etc") {
		s.parts = []string{"/etc"}
	}
	return settings{paths: append(s.parts, resolverFile), links: s.links}
}

// public collects the parts of a directory that every user may read. Root could
// also read the rest, where keys and passwords are.
type public struct {
	parts []string          // files, and directories whose whole content is public
	links map[string]string // symbolic links in the other directories
}

// walk reports whether the whole content of a directory is public. If it is not,
// it adds the public parts.
func (s *public) walk(dir string) (all bool) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	found := public{links: make(map[string]string)}
	var links []string
	all = true
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		if entry.Type()&os.ModeSymlink != 0 {
			links = append(links, path)
			continue
		}
		info, err := entry.Info()
		switch {
		case err != nil:
			all = false
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
		for _, path := range links {
			s.links[path], _ = os.Readlink(path)
		}
	}
	return all
}
