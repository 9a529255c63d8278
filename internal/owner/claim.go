package owner

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Claim says whom a workspace belongs to. Root of a container may give the
// workspace's directory to anybody, and this process may be killed before it has
// given it back: so the owner is recorded before the first container starts, and
// the record counts for every later claim until one has ended in good order.
//
// Whoever claims a workspace holds its record open under a shared lock, which
// goes with the process. The last one to end removes the record.
type Claim struct {
	Path     string // of the directory, without symbolic links
	UID, GID int    // of its owner
	Dev, Ino uint64 // of the directory, as it is mounted now

	now    [2]int   // its owner as the file system has it
	file   *os.File // the record; nil where none can be kept
	record string   // its name
	state  *state
	fresh  int64 // the size of the record, if nobody had recorded the workspace before
}

// Claim takes a workspace. The claim is good also with an error, unless it is nil:
// the error then says why it is not recorded. A nil claim without an error stands
// for a system on which files have no owners.
func (s *Self) Claim(dir string) (*Claim, error) {
	c, err := lookAt(dir)
	if c == nil || err != nil {
		return nil, err
	}
	if s.state == nil {
		return c, s.err
	}
	if err := s.state.claim(c); err != nil {
		return c, fmt.Errorf("record whom %s belongs to: %w", c.Path, err)
	}
	return c, nil
}

// Fresh reports whether nobody else has recorded the workspace, before or since:
// whoever joins may have been killed.
func (c *Claim) Fresh() bool {
	if c == nil || c.file == nil || c.fresh == 0 {
		return false
	}
	info, err := c.file.Stat()
	return err == nil && info.Size() == c.fresh
}

// Lost reports whether the directory was somebody else's when it was claimed.
func (c *Claim) Lost() bool { return c.now != [2]int{c.UID, c.GID} }

// Release ends the claim. The record is removed with the last claim, if the files
// are the owner's again.
func (c *Claim) Release(restored bool) error {
	if c == nil || c.file == nil {
		return nil
	}
	var err error
	if restored && lockAlone(c.file) && c.state.leadsTo(c.record, c.file) {
		err = c.state.root.Remove(c.record)
	}
	err = errors.Join(err, c.file.Close())
	c.file = nil
	return err
}

// Abandoned claims the workspaces whose claims ended with their processes.
// Records of directories that have not been seen for long are removed.
func (s *Self) Abandoned() []*Claim {
	if s.state == nil {
		return nil
	}
	entries, err := fs.ReadDir(s.state.root.FS(), claimsDir)
	if err != nil {
		return nil // there is none then
	}
	var found []*Claim
	for _, e := range entries {
		if c := s.state.abandoned(claimsDir + "/" + e.Name()); c != nil {
			found = append(found, c)
		}
	}
	return found
}

// claimsDir holds the records of workspaces, named by their directories' ids.
const claimsDir = "workspaces"

// onDevice is in the names of records that may be those of later directories too.
const onDevice = "-dev"

// newClaim begins the names of records that are not complete.
const newClaim = "new-"

// claim finds or makes the record of a workspace.
func (s *state) claim(c *Claim) error {
	if err := s.root.MkdirAll(claimsDir, 0o700); err != nil {
		return err
	}
	c.state, c.record = s, claimsDir+"/"+c.record
	for {
		err := s.join(c)
		if errors.Is(err, fs.ErrNotExist) {
			err = s.begin(c)
		}
		if !errors.Is(err, errMoved) {
			return err
		}
	}
}

// errMoved tells that another process was faster.
var errMoved = errors.New("the record has changed")

// join takes the owner from a record that is there.
func (s *state) join(c *Claim) error {
	f, err := s.open(c.record)
	if err != nil {
		return err
	}
	if err = lockShared(f); err == nil && !s.leadsTo(c.record, f) {
		err = errMoved
	}
	if err == nil && c.read(f) != nil { // the machine went down before all of it was on the disk
		err = errors.Join(errMoved, s.root.Remove(c.record))
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	_, _ = f.WriteString(joined) // behind what was read; a full disk is no reason to do without the record
	c.file = f
	return nil
}

// joined is added to a record by each who joins, see [Claim.Fresh].
const joined = "+"

// maxRecord is more than any record has, in bytes.
const maxRecord = 64 << 10

// open opens a record. What is none has come there by mistake, and is removed: a
// pipe would be waited for, and a link never found to be the record.
func (s *state) open(record string) (*os.File, error) {
	info, err := s.root.Lstat(record)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxRecord {
		if err := s.root.Remove(record); err != nil {
			return nil, err
		}
		return nil, fs.ErrNotExist
	}
	return s.root.OpenFile(record, os.O_RDWR, 0)
}

// begin makes the record. It has its name only when it is whole and locked.
func (s *state) begin(c *Claim) error {
	temp := claimsDir + "/" + newClaim + rand.Text()
	f, err := s.root.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	size, err := fmt.Fprintf(f, "%d %d %q\n", c.UID, c.GID, c.Path)
	if err == nil {
		err = lockShared(f)
	}
	if err == nil {
		err = s.root.Link(temp, c.record)
		if errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) { // it was taken for abandoned
			err = errMoved
		}
	}
	_ = s.root.Remove(temp) // is abandoned with this process
	if err == nil {
		err = s.confirm(c)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	c.file, c.fresh = f, int64(size)
	return nil
}

// confirm looks at the directory again once its record is there: only then no
// claim of others can begin and end between the two.
func (s *state) confirm(c *Claim) error {
	again, err := lookAt(c.Path)
	switch {
	case err != nil:
		return errors.Join(err, s.root.Remove(c.record))
	case again.now != c.now:
		c.UID, c.GID, c.now = again.UID, again.GID, again.now
		return errors.Join(errMoved, s.root.Remove(c.record))
	}
	return nil
}

// read reads the owner from a record.
func (c *Claim) read(f *os.File) error {
	uid, gid, _, err := parseClaim(f)
	if err == nil {
		c.UID, c.GID = uid, gid
	}
	return err
}

func parseClaim(f *os.File) (uid, gid int, path string, err error) {
	_, err = fmt.Fscanf(f, "%d %d %q\n", &uid, &gid, &path)
	if err == nil && (uid < 0 || gid < 0) {
		err = errors.New("no owner")
	}
	return uid, gid, path, err
}

// leadsTo reports whether a file still has its name.
func (s *state) leadsTo(name string, f *os.File) bool {
	there, err := s.root.Lstat(name)
	if err != nil {
		return false
	}
	info, err := f.Stat()
	return err == nil && os.SameFile(there, info)
}

// abandoned claims the workspace of a record that nobody holds, or returns nil.
func (s *state) abandoned(record string) *Claim {
	f, err := s.open(record)
	if err != nil {
		return nil
	}
	defer f.Close()
	if !lockAlone(f) {
		return nil
	}
	c, err := s.lookUp(record, f)
	if err != nil {
		if s.leadsTo(record, f) && (!errors.Is(err, errAway) || old(f)) {
			_ = s.root.Remove(record) // one too many is looked at again
		}
		return nil
	}
	if c == nil || unlock(f) != nil || s.join(c) != nil {
		return nil
	}
	return c
}

// errAway tells that a directory is not where it was. It may come back: its disk is
// not mounted, or it has another name.
var errAway = errors.New("the directory is not there")

// awayTime is how long the record of such a directory is kept.
const awayTime = 90 * 24 * time.Hour

func old(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && time.Since(info.ModTime()) > awayTime
}

// lookUp finds the directory of a record. It returns nil where that cannot be
// looked at, and an error where there is none.
func (s *state) lookUp(record string, f *os.File) (*Claim, error) {
	if strings.HasPrefix(filepath.Base(record), newClaim) {
		return nil, errMoved
	}
	_, _, path, err := parseClaim(f)
	if err != nil {
		return nil, err
	}
	c, err := lookAt(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && c != nil && claimsDir+"/"+c.record != record:
		if strings.Contains(record, onDevice) {
			return nil, errMoved // the next directory may get its number
		}
		return nil, errAway
	case err != nil || c == nil:
		return nil, nil
	}
	c.state, c.record = s, record
	return c, nil
}
