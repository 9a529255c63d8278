package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"

	"github.com/x/pygent"
)

// Sizes of what is copied.
const (
	largeFile  = 100 << 20
	smallFiles = 10_000
	smallFile  = 1 << 10
)

// carrier copies files of this machine into a place and back, in one way.
type carrier interface {
	// in copies a file or directory to a name of the place that does not exist yet.
	in(ctx context.Context, src, name string) error
	// out copies it to a path of this machine that does not exist yet.
	out(ctx context.Context, name, dest string) error
	// remove removes what was copied in, by a pattern of a shell for its name.
	remove(ctx context.Context, pattern string) error
	close() error
}

// carriage is a way to copy files.
type carriage struct {
	name string
	open func(ctx context.Context) (carrier, error)
}

// site is where files are copied to. Pygent's way to it is compared with the fastest
// of the peers.
type site struct {
	name, key string
	ours      carriage
	peers     []carriage
}

// ways are all that copy to the site, ours first.
func (s site) ways() []carriage { return append([]carriage{s.ours}, s.peers...) }

// sites returns the places to measure. An engine on another machine is measured if
// PYGENT_TEST_REMOTE_ENGINE names one; scripts/remote.sh starts one here that sees
// none of our files.
func sites(image string) []site {
	docker := func(opts ...pygent.RuntimeOption) carriage {
		return carriage{"pygent", func(ctx context.Context) (carrier, error) {
			return openRuntime(ctx)(pygent.NewDockerRuntime(ctx, append(opts, pygent.WithImage(image))...))
		}}
	}
	list := []site{
		{"engine that shares our files", "shared", docker(), peers("", image, true)},
		{"workspace in a volume", "volume", docker(pygent.WithSharedFiles(false)), peers("", image, false)},
		{"local runtime", "local", carriage{"pygent", func(ctx context.Context) (carrier, error) {
			return openRuntime(ctx)(pygent.NewLocalRuntime(ctx))
		}}, []carriage{{"cp -r", openCp}}},
	}
	if host := os.Getenv("PYGENT_TEST_REMOTE_ENGINE"); host != "" {
		list = append(list, site{"remote engine", "remote", docker(pygent.WithDockerHost(host)), peers(host, image, false)})
	}
	return list
}

func peers(host, image string, bind bool) []carriage {
	return []carriage{
		{"docker cp", func(ctx context.Context) (carrier, error) {
			e, err := openEngine(ctx, host, image, bind)
			return cpCarrier{e}, err
		}},
		{"engine's API", func(ctx context.Context) (carrier, error) { return openEngine(ctx, host, image, bind) }},
	}
}

// runtimeCarrier is a runtime of pygent.
type runtimeCarrier struct{ pygent.Runtime }

// openRuntime returns a function that takes a new runtime and waits until it runs.
func openRuntime(ctx context.Context) func(pygent.Runtime, error) (carrier, error) {
	return func(r pygent.Runtime, err error) (carrier, error) {
		if err != nil {
			return nil, err
		}
		c := runtimeCarrier{r}
		if err := (guestPlace{r}).run(ctx, "true"); err != nil {
			return nil, errors.Join(err, c.close())
		}
		return c, nil
	}
}

func (c runtimeCarrier) in(ctx context.Context, src, name string) error {
	return c.UploadFile(ctx, src, name)
}

func (c runtimeCarrier) out(ctx context.Context, name, dest string) error {
	return c.ExportFile(ctx, name, dest)
}

func (c runtimeCarrier) remove(ctx context.Context, pattern string) error {
	_, err := c.Bash(ctx, "rm -rf "+pattern, pygent.BashTimeout(pygent.NoLimit))
	return err
}

func (c runtimeCarrier) close() error { return c.Cleanup() }

// load is what is copied.
type load struct {
	name string
	make func(path string) error
	// stay keeps the copies until the site is done: for a minute after many files were
	// removed, ext4 takes long to make others.
	stay bool
}

var loads = []load{
	{fmt.Sprintf("%d MiB", largeFile>>20), func(path string) error { return writeNoise(path, largeFile) }, false},
	{fmt.Sprintf("%d × %d KiB", smallFiles, smallFile>>10), writeMany, true},
}

// writeMany makes a directory of small files.
func writeMany(dir string) error {
	if err := os.Mkdir(dir, 0o777); err != nil {
		return err
	}
	noise, content := rand.NewChaCha8([32]byte{}), make([]byte, smallFile)
	for i := range smallFiles {
		_, _ = noise.Read(content) // it never fails
		if err := os.WriteFile(filepath.Join(dir, "file-"+strconv.Itoa(i)), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// carried is how long copies of one load took in one way.
type carried struct{ in, out times }

// times are those on the clock, and those of processors.
type times struct{ clock, processor samples }

func (t *times) time(f func() error) error {
	before := processorTimesNow()
	err := t.clock.time(f)
	t.processor = append(t.processor, processorTimesNow().since(before))
	return err
}

// siteReport is what was measured at a site.
type siteReport struct {
	site   site
	times  map[string]map[string]*carried // by the way, and by the load
	growth map[string]int64               // of our memory, by the load
}

// copies measures copies to a site and back, of one large file and of many small ones.
// All ways take turns. A large copy is removed outside of the time, before the kernel
// writes it to the disk: so no way pays for what another has left.
func (b *bench) copies(ctx context.Context, r *report, s site) error {
	for _, l := range loads {
		if _, err := os.Stat(b.path(l.name)); err == nil {
			continue // made for another site
		}
		if err := l.make(b.path(l.name)); err != nil {
			return err
		}
	}
	found, err := b.copiesAt(ctx, s)
	r.sites = append(r.sites, found)
	return err
}

func (b *bench) copiesAt(ctx context.Context, s site) (r siteReport, err error) {
	rounds := max(b.rounds/6, 1)
	b.log("files, %s: %d rounds", s.name, rounds)
	r = siteReport{site: s, times: map[string]map[string]*carried{}}
	if err := b.child(ctx, &r.growth, "files", s.key, b.dir); err != nil {
		return r, err
	}
	ways, open := s.ways(), map[string]carrier{}
	if err := os.Mkdir(b.path("out"), 0o777); err != nil {
		return r, err
	}
	defer func() {
		err = errors.Join(err, os.RemoveAll(b.path("out")))
		for _, c := range open {
			// An engine does not answer for long while it removes so many files.
			err = errors.Join(err, c.remove(ctx, "stays-*"), c.close())
		}
	}()
	for _, w := range ways {
		if open[w.name], err = w.open(ctx); err != nil {
			delete(open, w.name)
			return r, fmt.Errorf("%s: %w", w.name, err)
		}
		r.times[w.name] = map[string]*carried{}
		for _, l := range loads {
			r.times[w.name][l.name] = &carried{}
		}
	}
	for round := range rounds {
		for _, l := range loads {
			for i := range ways {
				w := ways[(round+i)%len(ways)]
				if err := b.carry(ctx, open[w.name], l, r.times[w.name][l.name], round); err != nil {
					return r, fmt.Errorf("%s: %w", w.name, err)
				}
			}
		}
	}
	return r, nil
}

// carry copies a load in and out. In the first round it compares the copy.
func (b *bench) carry(ctx context.Context, c carrier, l load, t *carried, round int) error {
	b.copied++
	src, name, dest := b.path(l.name), fmt.Sprintf("stays-%d", b.copied), b.path(fmt.Sprintf("out/%d", b.copied))
	err := t.in.time(func() error { return c.in(ctx, src, name) })
	if err == nil {
		err = t.out.time(func() error { return c.out(ctx, name, dest) })
	}
	if err == nil && round == 0 {
		err = sameTree(src, dest)
	}
	if !l.stay {
		err = errors.Join(err, c.remove(ctx, name), os.RemoveAll(dest))
	}
	return err
}

// measureFiles copies everything in and out once, and returns by how many bytes the
// peak of our resident memory grew.
func measureFiles(ctx context.Context, image, key, dir string) (growth map[string]int64, err error) {
	for _, s := range sites(image) {
		if s.key != key {
			continue
		}
		c, err := s.ours.open(ctx)
		if err != nil {
			return nil, err
		}
		growth = map[string]int64{}
		for _, l := range loads {
			growth[l.name], err = grown(func() error {
				err := c.in(ctx, filepath.Join(dir, l.name), l.name)
				if err == nil {
					err = c.out(ctx, l.name, filepath.Join(dir, "child", l.name))
				}
				return err
			})
			if err != nil {
				return nil, errors.Join(err, c.close())
			}
		}
		return growth, c.close()
	}
	return nil, fmt.Errorf("no site %q", key)
}
