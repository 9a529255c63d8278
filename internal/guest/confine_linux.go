package guest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/x/pygent/internal/guest/confine"
	"github.com/x/pygent/internal/guest/wire"
)

// tryTime is how long one attempt to confine a child may take.
const tryTime = 10 * time.Second

var tried struct {
	mu      sync.Mutex // guards the fields below
	known   bool
	support confine.Support
}

// Confinement returns how far a local guest can be confined on this machine. It
// finds out by confining a child. The result is kept for the life of this
// process, unless the attempt failed for a temporary reason. makeTemp makes a directory
// for it that a later process removes if this one is killed.
func Confinement(ctx context.Context, makeTemp MakeTemp) confine.Support {
	tried.mu.Lock()
	defer tried.mu.Unlock()
	if tried.known {
		return tried.support
	}
	support, err := try(ctx, makeTemp)
	tried.support, tried.known = support, ctx.Err() == nil && !passing(err)
	return support
}

// try tries one level after the other. The error says why the higher levels are
// not available.
func try(ctx context.Context, makeTemp MakeTemp) (confine.Support, error) {
	version, full := tryLevel(ctx, confine.Full, makeTemp)
	if full == nil {
		return confine.Support{Level: confine.Full, Landlock: version}, nil
	}
	version, files := tryLevel(ctx, confine.Files, makeTemp)
	if files == nil {
		return confine.Support{Level: confine.Files, Landlock: version, Why: full.Error()}, full
	}
	err := errors.Join(files, full)
	return confine.Support{Why: fmt.Sprintf("%v; %v", files, full)}, err
}

// passing reports whether an error may be temporary.
func passing(err error) bool {
	for _, errno := range []error{unix.EAGAIN, unix.ENOMEM, unix.EMFILE, unix.ENFILE, context.DeadlineExceeded} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}

// tryLevel makes a child confine itself, and returns the version of Landlock that
// it reports.
func tryLevel(ctx context.Context, level confine.Level, makeTemp MakeTemp) (version int, err error) {
	program, err := program()
	if err != nil {
		return 0, err
	}
	temp, remove, err := makeTemp()
	if err != nil {
		return 0, err
	}
	defer remove() // also mount points that the child has made in it
	var policy, stdout bytes.Buffer
	if err := wire.WriteFrame(&policy, wire.KindConfine, NewPolicy(level, temp)); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, tryTime)
	defer cancel()
	words := &lastWords{}
	cmd := exec.CommandContext(ctx, program)
	cmd.Args, cmd.Env = []string{confine.TryName}, []string{}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = &policy, &stdout, words
	cmd.SysProcAttr = confinedAttr(level)
	err = cmd.Run()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) && words.String() != "" {
		err = errors.New(strings.TrimPrefix(words.String(), "guest: "))
	}
	if err != nil {
		return 0, err
	}
	version, err = strconv.Atoi(strings.TrimSpace(stdout.String()))
	if err != nil {
		return 0, fmt.Errorf("the guest said: %q", stdout.String())
	}
	return version, nil
}

// NewPolicy returns a policy for the user of this process. It allows only the
// system's paths and temp, a directory for temporary files.
func NewPolicy(level confine.Level, temp string) *confine.Policy {
	uid := os.Geteuid()
	return &confine.Policy{Level: level, Temp: temp, MapUser: uid != 0, UID: uid, GID: os.Getegid()}
}

// confinedAttr returns how to start a child that confines itself.
func confinedAttr(level confine.Level) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{}
	if level == confine.Full {
		attr = confine.Namespaces(os.Geteuid())
	}
	attr.Setsid = true
	return attr
}

// confinedName returns the name (argv[0]) of a child that confines itself.
func confinedName(level confine.Level) string {
	if level == confine.Files {
		return confine.Keeper
	}
	return confine.Name
}
