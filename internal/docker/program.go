package docker

import (
	"os"
	"sync"

	"github.com/docker/docker/api/types/image"

	"github.com/x/pygent/internal/guest/binary"
)

// guestProgram is the guest for the containers of one architecture. It is kept in a
// file, for engines that mount it and for the next process.
type guestProgram struct {
	arch  string
	bytes func() ([]byte, error) // for engines that do not; unpacked or read once

	mu   sync.Mutex // guards path
	path string     // of the file; empty until it is wanted
}

// guestPrograms are those asked for so far, by architecture.
var guestPrograms struct {
	sync.Mutex
	byArch map[string]*guestProgram
}

// program returns the guest for an image, or nil where commands run by plain exec.
func (c Config) program(info image.InspectResponse) *guestProgram {
	if c.NoGuest {
		return nil
	}
	return guestFor(info.Os, info.Architecture)
}

// guestFor returns the guest for an operating system and an architecture, as
// Docker names them, or nil where there is none.
func guestFor(system, arch string) *guestProgram {
	if system != "linux" || !binary.Supports(arch) {
		return nil
	}
	guestPrograms.Lock()
	defer guestPrograms.Unlock()
	if p := guestPrograms.byArch[arch]; p != nil {
		return p
	}
	p := &guestProgram{arch: arch, bytes: sync.OnceValues(func() ([]byte, error) {
		dir, _ := binary.CacheDir() // without one it is unpacked
		return binary.Read(dir, arch)
	})}
	if guestPrograms.byArch == nil {
		guestPrograms.byArch = map[string]*guestProgram{}
	}
	guestPrograms.byArch[arch] = p
	return p
}

// file returns the path of a file that holds the program. It is kept from
// process to process in the user's cache, under a name made of its content. It
// is an error where there is no such directory, or others may change it.
func (p *guestProgram) file() (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.path != "" {
		if _, err := os.Stat(p.path); err == nil {
			return p.path, nil
		}
	}
	dir, err := binary.CacheDir()
	if err != nil {
		return "", err
	}
	p.path, err = binary.File(dir, p.arch)
	return p.path, err
}
