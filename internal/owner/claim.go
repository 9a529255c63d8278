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

// Claim records the owner of a workspace. Root of a container may give the
// workspace's directory to any user, and this process may be killed before it
// has given the directory back. So the owner is recorded before the first
// container starts. The record then applies to every later claim, until a claim
// has ended properly.
//
// A process that claims a workspace keeps its record open with a shared lock,
// which ends with the process. The last claim to end removes the record.
type Claim struct {
	Path     string // of the directory, without symbolic links
	UID, GID int    // of its owner
	Dev, Ino uint64 // of the directory, as it is mounted now
	// Since is a moment before any container had the directory for this claim, or for one
	// that never ended. It is at least a tick of the clock by which file systems stamp files
	// before that.
	Since time.Time

	now    [2]int   // the owner that the file system reports now
	file   *os.File // the record; nil if none can be kept
	record string   // the name of the record
	state  *state
	fresh  int64 // the size of the record if this claim made it; else 0
}

// Claim claims a workspace. If it returns both a claim and an error, the claim
// can be used, and the error says why it was not recorded. It returns neither
// on a system where files have no owners.
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

// Fresh reports whether no other process has recorded the workspace, before
// this claim or since. A process that joined later may have been killed, and
// then the record still counts.
func (c *Claim) Fresh() bool {
	if c == nil || c.file == nil || c.fresh == 0 {
		return false
	}
	info, err := c.file.Stat()
	return err == nil && info.Size() == c.fresh
}

// Lost reports whether the directory belonged to somebody else when it was
// claimed.
func (c *Claim) Lost() bool { return c.now != [2]int{c.UID, c.GID} }

// Release ends the claim. If this is the last claim, and restored says that the
// files are the owner's again, the record is removed.
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

// Abandoned claims the workspaces whose processes have ended without releasing
// them. It removes the records of directories that have been missing for a long
// time.
func (s *Self) Abandoned() []*Claim {
	if s.state == nil {
		return nil
	}
	entries, err := fs.ReadDir(s.state.root.FS(), claimsDir)
	if err != nil {
		return nil // the directory does not exist
	}
	var found []*Claim
	for _, e := range entries {
		if c := s.state.abandoned(claimsDir + "/" + e.Name()); c != nil {
			found = append(found, c)
		}
	}
	return found
}

// claimsDir holds the records of workspaces. A record is named after the id of
// its directory.
const claimsDir = "workspaces"

// onDevice is part of a record's name if a later directory may get the same
// name.
const onDevice = "-dev"

// newClaim begins the names of records that are not complete yet.
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

// errMoved means that another process has changed the record in the meantime.
var errMoved = errors.New("the record has changed")

// join takes over the owner from an existing record.
func (s *state) join(c *Claim) error {
	f, err := s.open(c.record)
	if err != nil {
		return err
	}
	if err = lockShared(f); err == nil && !s.leadsTo(c.record, f) {
		err = errMoved
	}
	if err == nil && c.read(f) != nil { // the machine crashed before the whole record was on the disk
		err = errors.Join(errMoved, s.root.Remove(c.record))
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	_, _ = f.WriteString(joined) // at the end of the record; a full disk is no reason not to use the record
	c.file = f
	return nil
}

// joined is appended to a record by each process that joins; see [Claim.Fresh].
const joined = "+"

// maxRecord is a limit for the size of a record, in bytes. No valid record
// reaches it.
const maxRecord = 64 << 10

// open opens a record. Anything else in its place is there by mistake, and is
// removed: opening a pipe would block, and a link would never be accepted as
// the record.
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

// begin makes the record. The record gets its name only once it is complete and
// locked.
func (s *state) begin(c *Claim) error {
	temp := claimsDir + "/" + newClaim + rand.Text()
	f, err := s.root.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	size, err := fmt.Fprintf(f, "%d %d %q %d\n", c.UID, c.GID, c.Path, c.Since.UnixNano())
	if err == nil {
		err = lockShared(f)
	}
	if err == nil {
		err = s.root.Link(temp, c.record)
		if errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) { // another process took it for abandoned
			err = errMoved
		}
	}
	_ = s.root.Remove(temp) // if this fails, the file is removed as abandoned later
	if err == nil {
		err = s.confirm(c)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	c.file, c.fresh = f, int64(size)
	return nil
}

// confirm looks at the directory again once its record exists. From then on, no
// other claim can begin and end unnoticed.
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
	r, err := parseClaim(f)
	if err == nil {
		c.UID, c.GID, c.Since = r.UID, r.GID, r.Since
	}
	return err
}

// parseClaim reads what is recorded of a claim.
func parseClaim(f *os.File) (*Claim, error) {
	c, since := &Claim{}, int64(0)
	_, err := fmt.Fscanf(f, "%d %d %q %d\n", &c.UID, &c.GID, &c.Path, &since)
	if err == nil && (c.UID < 0 || c.GID < 0) {
		err = errors.New("no owner")
	}
	c.Since = time.Unix(0, since)
	return c, err
}

// leadsTo reports whether name still is the name of the open file f.
func (s *state) leadsTo(name string, f *os.File) bool {
	there, err := s.root.Lstat(name)
	if err != nil {
		return false
	}
	info, err := f.Stat()
	return err == nil && os.SameFile(there, info)
}

// abandoned claims the workspace of a record that no process holds. It returns
// nil if some process holds it.
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
			_ = s.root.Remove(record) // if this fails, the record is looked at again later
		}
		return nil
	}
	if c == nil || unlock(f) != nil || s.join(c) != nil {
		return nil
	}
	return c
}

// errAway means that a directory is not where it was. It may come back: its
// disk may not be mounted, or it may have been renamed.
var errAway = errors.New("the directory is not there")

// awayTime is how long the record of a missing directory is kept.
const awayTime = 90 * 24 * time.Hour

func old(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && time.Since(info.ModTime()) > awayTime
}

// lookUp finds the directory of a record. It returns nil if the directory
// cannot be looked at, and an error if it does not exist.
func (s *state) lookUp(record string, f *os.File) (*Claim, error) {
	if strings.HasPrefix(filepath.Base(record), newClaim) {
		return nil, errMoved
	}
	recorded, err := parseClaim(f)
	if err != nil {
		return nil, err
	}
	c, err := lookAt(recorded.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && c != nil && claimsDir+"/"+c.record != record:
		if strings.Contains(record, onDevice) {
			return nil, errMoved // a later directory may get the same inode number
		}
		return nil, errAway
	case err != nil || c == nil:
		return nil, nil
	}
	c.state, c.record = s, record
	return c, nil
}
