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

// tryTime bounds how long trying out a confinement may take.
const tryTime = 10 * time.Second

var tried struct {
	mu      sync.Mutex // guards what follows
	known   bool
	support confine.Support
}

// Confinement tells how far a local guest can be confined here, by trying it
// out with a child. It does that once in the life of this process, unless the
// reason of a failure was of the moment.
func Confinement(ctx context.Context) confine.Support {
	tried.mu.Lock()
	defer tried.mu.Unlock()
	if tried.known {
		return tried.support
	}
	support, err := try(ctx)
	tried.support, tried.known = support, ctx.Err() == nil && !passing(err)
	return support
}

// try tries one level after the other. The error is that of the levels that
// are not to be had.
func try(ctx context.Context) (confine.Support, error) {
	version, full := tryLevel(ctx, confine.Full)
	if full == nil {
		return confine.Support{Level: confine.Full, Landlock: version}, nil
	}
	version, files := tryLevel(ctx, confine.Files)
	if files == nil {
		return confine.Support{Level: confine.Files, Landlock: version, Why: full.Error()}, full
	}
	err := errors.Join(files, full)
	return confine.Support{Why: fmt.Sprintf("%v; %v", files, full)}, err
}

// passing reports whether an error may not be met again.
func passing(err error) bool {
	for _, errno := range []error{unix.EAGAIN, unix.ENOMEM, unix.EMFILE, unix.ENFILE, context.DeadlineExceeded} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}

// tryLevel has a child confine itself, and returns the version of Landlock.
func tryLevel(ctx context.Context, level confine.Level) (version int, err error) {
	program, err := program()
	if err != nil {
		return 0, err
	}
	temp, err := os.MkdirTemp("", "pygent-try-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(temp) // it may hold places to mount on
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

// NewPolicy returns a policy for this process's user that allows nothing but
// the system and a directory for temporary files.
func NewPolicy(level confine.Level, temp string) *confine.Policy {
	uid := os.Geteuid()
	return &confine.Policy{Level: level, Temp: temp, MapUser: uid != 0, UID: uid, GID: os.Getegid()}
}

// confinedAttr says how a child is started that confines itself.
func confinedAttr(level confine.Level) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{}
	if level == confine.Full {
		attr = confine.Namespaces(os.Geteuid())
	}
	attr.Setsid = true
	return attr
}

// confinedName is the name under which a child is started that confines itself.
func confinedName(level confine.Level) string {
	if level == confine.Files {
		return confine.Keeper
	}
	return confine.Name
}
