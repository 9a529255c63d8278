package docker

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/client"
	"github.com/docker/go-units"

	"github.com/x/pygent/internal/guest"
	"github.com/x/pygent/internal/owner"
	"github.com/x/pygent/internal/sandbox"
)

// idleScript is PID 1 of the container: it ends when its standard input does,
// which the engine closes when this process dies. The second command keeps the
// shell from replacing itself by cat, which would not wait for orphans.
const idleScript = "cat >/dev/null; exit 0"

// hostSilence is how long a guest runs on without hearing from us. Its engine may
// have lost us and still keep the stream open. It is longer than we wait for a
// guest, so that both ends give up a link, and long enough for a process of ours
// that a person or a debugger has stopped for a while.
const hostSilence = 5 * time.Minute

// errDiedAtStart is the error of a container that ended before its guest answered.
var errDiedAtStart = errors.New("the container ended at its start")

// shimDied is what an engine says when containerd's process for a container has ended
// before the container began, as a few of a thousand do when many are started:
// https://github.com/monogon/monogon/issues/33.
const shimDied = "ttrpc: closed"

// errContainerGone is the error of a command that could not begin because its
// container had died.
var errContainerGone = errors.New("the container has died")

// containerSpec is what a sandbox's containers are made of.
type containerSpec struct {
	id     string
	self   *owner.Self
	config container.Config
	host   container.HostConfig
	giveUp bool // files may have to be given to the workspace's owner at the end
	pace   sandbox.Pace
	view   view
	shell  string // its path in the container; empty while it is not known

	// hostOwner is whom the workspace belongs to, as this machine numbers users.
	hostOwner guest.HostOwner
	// owner is that as the containers number them, and set by the one start that
	// goes on. What runs inside may give the directory away.
	owner *guest.Owner
}

// newContainerSpec describes the containers of a sandbox but for their [place].
func newContainerSpec(c Config) containerSpec {
	id := strings.ToLower(rand.Text()[:12])
	s := containerSpec{
		id:     id,
		self:   c.Self(),
		pace:   c.Pace,
		owner:  new(guest.Owner),
		giveUp: c.Workspace != "" || os.Geteuid() != 0,
		config: container.Config{
			Image:        c.Image,
			Entrypoint:   []string{"/bin/sh", "-c", idleScript},
			User:         c.User,
			WorkingDir:   Workspace,
			OpenStdin:    true,
			StdinOnce:    true,
			AttachStdin:  true,
			AttachStdout: true,
			AttachStderr: true,
			Healthcheck:  &container.HealthConfig{Test: []string{"NONE"}},
			Labels:       c.Self().Labels(id, owner.HoldsNothing),
		},
		host: container.HostConfig{
			AutoRemove:     true,
			NetworkMode:    container.NetworkMode(c.Network),
			CapDrop:        []string{"ALL"},
			CapAdd:         c.Capabilities,
			SecurityOpt:    []string{"no-new-privileges"},
			LogConfig:      container.LogConfig{Type: "none"},
			ReadonlyRootfs: c.ReadOnlyRoot,
			ReadonlyPaths:  readOnlyProc,
			Mounts:         bindMounts(c.Mounts),
			Resources:      resources(c),
		},
	}
	if c.ReadOnlyRoot {
		s.host.Tmpfs = map[string]string{"/tmp": "mode=1777"}
	}
	return s
}

// resources are what the containers of a sandbox may use.
func resources(c Config) container.Resources {
	gpus, _ := gpuRequests(c.GPUs) // checked with the options
	return container.Resources{
		Memory:         c.Memory,
		MemorySwap:     c.Memory, // memory and swap together: no swap
		NanoCPUs:       int64(c.CPUs * 1e9),
		PidsLimit:      &c.Pids,
		DeviceRequests: gpus,
	}
}

// bindMounts uses the API's Mounts: unlike Binds they refuse a source that
// does not exist instead of making an empty directory of it.
func bindMounts(wanted []Mount) []mount.Mount {
	var mounts []mount.Mount
	for _, m := range wanted {
		mounts = append(mounts, mount.Mount{Type: mount.TypeBind, Source: m.Source, Target: path.Clean(m.Target), ReadOnly: m.ReadOnly})
	}
	return mounts
}

// CheckGPUs refuses what names no GPUs: "all", a number, or "device=0,1".
func CheckGPUs(gpus string) error {
	_, err := gpuRequests(gpus)
	return err
}

// gpuRequests are what asks an engine for GPUs.
func gpuRequests(gpus string) ([]container.DeviceRequest, error) {
	request := container.DeviceRequest{Capabilities: [][]string{{"gpu"}}}
	ids, byID := strings.CutPrefix(gpus, "device=")
	switch n, err := strconv.Atoi(gpus); {
	case gpus == "":
		return nil, nil
	case gpus == "all":
		request.Count = -1
	case byID && ids != "":
		request.DeviceIDs = strings.Split(ids, ",")
	case err == nil && n > 0:
		request.Count = n
	default:
		return nil, fmt.Errorf("GPUs %q: want all, a number, or device=0,1", gpus)
	}
	return []container.DeviceRequest{request}, nil
}

// Container is a running container, and the way into it.
type Container struct {
	engine   *client.Client
	name     string
	spec     containerSpec
	shell    string // path in the container
	commands sandbox.Commander
	emit     func(sandbox.Event)

	stream  types.HijackedResponse // of PID 1; closing it ends the container
	socket  *guestSocket           // that it mounts; nil for none
	gone    chan struct{}          // closed when the stream has ended
	watched sync.WaitGroup         // of the goroutine that closes gone
	closing atomic.Bool
	lost    sync.Once
	second  atomic.Bool // it came after another one, and no result has told
	reached string      // what that one did at its memory limit while no command ran; empty for nothing

	explained atomic.Bool // a result has told that it died of its memory limit

	hangUp func() error // closes the stream; runs once
	end    containerEnd
}

// startContainer creates and starts a container in its place. After an error
// no container is left; it is errNotShared where the engine does not see the
// place.
func startContainer(ctx context.Context, engine *client.Client, spec containerSpec, p place, name string, know func(shell string), emit func(sandbox.Event)) (*Container, error) {
	b := newContainer(engine, p.apply(spec), name, emit)
	b.socket = p.socket
	if err := b.bringUp(ctx, spec, p, know); err != nil {
		return nil, err
	}
	return b, nil
}

// bringUp creates and starts the container in its place, or leaves none.
func (b *Container) bringUp(ctx context.Context, spec containerSpec, p place, know func(shell string)) error {
	err := b.create(ctx)
	if err != nil && p.missing(err) {
		return fmt.Errorf("%w: %w", errNotShared, err)
	}
	if err == nil {
		err = p.deliver(ctx, b)
	}
	if err == nil {
		if b.shell = spec.shell; b.shell == "" {
			b.shell = b.findShell(ctx)
		}
		know(b.shell)
		err = b.start(ctx)
	}
	if err == nil {
		err = b.greet(ctx, p)
	}
	if err != nil {
		return errors.Join(err, b.discardAfter(ctx, err))
	}
	return nil
}

// tellNew tells the model, in the first result of a new container, what was lost
// with the last one.
func (b *Container) tellNew(res *sandbox.Result) {
	if !b.second.Swap(false) {
		return
	}
	why := ""
	if b.reached != "" {
		why = ", since the last one " + b.reached
	}
	note := "this is a new container on the same workspace" + why + ": what was installed or ran outside the workspace is gone"
	res.Note = strings.TrimPrefix(res.Note+"; "+note, "; ")
}

// newContainer describes a container that does not exist yet.
func newContainer(engine *client.Client, spec containerSpec, name string, emit func(sandbox.Event)) *Container {
	b := &Container{engine: engine, name: name, spec: spec, emit: emit, gone: make(chan struct{})}
	b.end.asking = make(chan struct{}, 1)
	b.hangUp = sync.OnceValue(func() error {
		err := b.commands.Close()
		b.stream.Close()
		b.watched.Wait()
		if b.socket != nil {
			err = errors.Join(err, b.socket.forget())
		}
		return err
	})
	return b
}

// discard removes a container that is of no use.
func (b *Container) discard() error { return b.discardWithin(discardTime) }

// discardAfter removes a container whose start has failed.
func (b *Container) discardAfter(ctx context.Context, failed error) error {
	if errors.As(failed, new(leftError)) { // the engine was asked to make it, and may yet
		return nil
	}
	return b.discardWithin(patienceAfter(ctx, failed))
}

// patienceAfter is how long it is tried to remove what a start that failed has made. Where
// nobody waits for the start any more, or the engine was silent, that is only a moment.
func patienceAfter(ctx context.Context, failed error) time.Duration {
	if ctx.Err() != nil || errors.Is(failed, errEngineSilent) {
		return lateTime
	}
	return discardTime
}

func (b *Container) discardWithin(limit time.Duration) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if b.commands != nil {
		err = b.close(ctx)
	} else {
		err = b.remove(ctx)
	}
	if err != nil {
		return leftError{error: err, container: b.name}
	}
	return nil
}

// greet makes the container ready for commands, which run under its guest, or by
// plain exec where it has none.
func (b *Container) greet(ctx context.Context, p place) error {
	if p.program == nil {
		b.commands = &execCommander{box: b}
		b.watched.Go(b.watchStream)
		return nil
	}
	stream := b.guestStream(p)
	client, err := guest.Connect(ctx, stream, guest.Config{
		Workspace: b.spec.config.WorkingDir, Nonce: p.nonce, Own: true, Owner: *b.spec.owner, HostOwner: b.spec.hostOwner,
		Patience: b.spec.pace.Patience, KeepAlive: b.spec.pace.KeepAlive, Silence: cmp.Or(b.spec.pace.Silence, hostSilence),
	})
	if err != nil {
		if words := stream.Stderr(); words != "" {
			err = fmt.Errorf("%w; the container said: %s", err, words)
		}
		if errors.Is(err, guest.ErrClosed) && !errors.Is(err, guest.ErrUnresponsive) {
			err = fmt.Errorf("%w: %w", errDiedAtStart, err)
		}
		return fmt.Errorf("start a container of image %q: %w", b.spec.config.Image, err)
	}
	if p.nonce != "" && (!client.Info().NonceSeen || client.Info().Nonce != p.nonce) {
		return errors.Join(errNotShared, client.Close())
	}
	*b.spec.owner = client.Info().Owner
	g := &boxedGuest{GuestCommander: sandbox.GuestCommander{Client: client, Killed: b.killedNote()}, box: b}
	g.TellLimits(b.emit)
	b.commands = g
	b.watched.Go(func() { b.watch(client.Done()) })
	return nil
}

// guestStream returns the stream of the container's guest.
func (b *Container) guestStream(p place) interface {
	io.ReadWriteCloser
	Stderr() string
} {
	if p.socket != nil {
		return guest.AttachDirect(b.stream.Reader, b.stream.Conn, p.socket)
	}
	return guest.Attach(b.stream.Reader, b.stream.Conn)
}

func (b *Container) create(ctx context.Context) error {
	if err := b.createOnce(ctx); err != nil {
		return fmt.Errorf("create a container of image %q: %w", b.spec.config.Image, err)
	}
	return nil
}

func (b *Container) createOnce(ctx context.Context) error {
	config := b.spec.config
	config.Labels = b.spec.self.Prove(owner.Container, b.name, config.Labels)
	return askWhole(ctx, b.engine, "container "+b.name, func(ctx context.Context) error {
		_, err := b.engine.ContainerCreate(ctx, &config, &b.spec.host, nil, nil, b.name)
		return err
	}, func(ctx context.Context) error { return removeContainer(ctx, b.engine, b.name) })
}

// shells are where a container may have its shell, the best first. Every one has
// the last.
var shells = []string{"/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash", "/bin/sh"}

// findShell looks for bash in the created container, where nothing runs yet.
func (b *Container) findShell(ctx context.Context) string {
	last := len(shells) - 1
	for _, shell := range shells[:last] {
		err := ask(ctx, b.engine, func(ctx context.Context) error {
			_, err := b.engine.ContainerStatPath(ctx, b.name, shell)
			return err
		})
		if err == nil {
			return shell
		}
	}
	return shells[last]
}

func (b *Container) start(ctx context.Context) (err error) {
	// Attached before the start, so that its end cannot be missed.
	b.stream, err = hijack(ctx, b.engine, engineTimeout, func(ctx context.Context) (types.HijackedResponse, error) {
		return b.engine.ContainerAttach(ctx, b.name, container.AttachOptions{Stream: true, Stdin: true, Stdout: true, Stderr: true})
	})
	if err != nil {
		return fmt.Errorf("attach to the container: %w", err)
	}
	err = ask(ctx, b.engine, func(ctx context.Context) error {
		return b.engine.ContainerStart(ctx, b.name, container.StartOptions{})
	})
	if err != nil {
		b.stream.Close()
		if strings.Contains(err.Error(), shimDied) {
			err = fmt.Errorf("%w: %w", errDiedAtStart, err)
		}
		return fmt.Errorf("start a container of image %q: %w", b.spec.config.Image, err)
	}
	return nil
}

// watchStream waits for the container's end, which closes the stream of PID 1.
func (b *Container) watchStream() {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		io.Copy(io.Discard, b.stream.Reader)
	}()
	b.watch(ended)
}

// watch notes the container's end.
func (b *Container) watch(ended <-chan struct{}) {
	<-ended
	close(b.gone)
	if !b.closing.Load() {
		b.lose(b.linkError())
	}
}

// linkError returns why nothing can be started in the container any more, as far
// as its guest tells.
func (b *Container) linkError() error {
	if g, ok := b.commands.(*boxedGuest); ok {
		return g.Client.Err()
	}
	return nil
}

// isGone reports whether nothing can be started in the container any more. What
// ran there may still run.
func (b *Container) isGone() bool {
	if b.linkError() != nil {
		return true // the goroutine that closes gone may be late
	}
	select {
	case <-b.gone:
		return true
	default:
		return false
	}
}

// giveUpFiles gives what the container's users made in the workspace to the
// workspace's owner, who could not even remove it otherwise. What a temporary
// workspace holds is removed at once.
func (b *Container) giveUpFiles(ctx context.Context, temporary bool) error {
	client, err := b.commands.Guest(ctx)
	if err == nil {
		if err = endJobs(ctx, client); temporary {
			return errors.Join(err, client.Remove(ctx, ".", true))
		}
		return errors.Join(err, client.Own(ctx, "."))
	}
	return b.giveUpByExec(ctx, false)
}

// endJobs ends what runs in the background, and would change files while they
// are looked through.
func endJobs(ctx context.Context, client *guest.Client) error {
	jobs, err := client.Jobs(ctx)
	for _, j := range jobs {
		if j.Running {
			_, killed := client.Kill(ctx, j.ID, 0)
			err = errors.Join(err, killed)
		}
	}
	return err
}

// killedNote explains the exit status of a process that was killed, most
// often because the memory limit was reached.
func (b *Container) killedNote() string {
	if b.spec.host.Memory <= 0 {
		return "killed; perhaps the engine's machine ran out of memory"
	}
	return "killed; perhaps the container's memory limit of " + units.BytesSize(float64(b.spec.host.Memory)) + " was reached"
}

// containerEnv are variables that commands need in a container: a user without
// an entry in its passwd file would get a home that nobody can write.
func containerEnv(c Config) []string {
	uid, _, _ := strings.Cut(cmp.Or(c.User, "0"), ":")
	numeric := !slices.ContainsFunc([]byte(uid), func(b byte) bool { return b < '0' || b > '9' })
	if c.ReadOnlyRoot || numeric && uid != "0" {
		return []string{"HOME=/tmp"}
	}
	return nil
}
