package docker

import (
	"errors"
	"os"
	"path/filepath"
	"sync"

	"github.com/docker/docker/api/types/image"

	"github.com/x/pygent/internal/guest/binary"
)

// guestProgram is the guest for the containers of one architecture. It is
// unpacked once in a process, and kept in a file for engines that mount it.
type guestProgram struct {
	bytes []byte

	mu   sync.Mutex // guards path
	path string     // of the file; empty until it is wanted
}

// guestPrograms are those unpacked so far, by architecture.
var guestPrograms struct {
	sync.Mutex
	byArch map[string]*guestProgram
}

// program returns the guest for an image, or nil where commands run by plain exec.
func (c Config) program(info image.InspectResponse) (*guestProgram, error) {
	if c.NoGuest {
		return nil, nil
	}
	return guestFor(info.Os, info.Architecture)
}

// guestFor returns the guest for an operating system and an architecture, as
// Docker names them, or nil where there is none.
func guestFor(system, arch string) (*guestProgram, error) {
	if system != "linux" {
		return nil, nil
	}
	guestPrograms.Lock()
	defer guestPrograms.Unlock()
	if p := guestPrograms.byArch[arch]; p != nil {
		return p, nil
	}
	unpacked, err := binary.Bytes(arch)
	if errors.Is(err, binary.ErrPlatform) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	p := &guestProgram{bytes: unpacked}
	if guestPrograms.byArch == nil {
		guestPrograms.byArch = map[string]*guestProgram{}
	}
	guestPrograms.byArch[arch] = p
	return p, nil
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
	dir, err := guestCache()
	if err != nil {
		return "", err
	}
	p.path, err = binary.File(dir, p.bytes)
	return p.path, err
}

// guestCache is a directory for the program, in the user's cache.
func guestCache() (string, error) {
	dir, err := os.UserCacheDir()
	return filepath.Join(dir, "pygent"), err
}
