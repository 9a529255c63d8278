package objstore

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/x/pygent/internal/treedir"
)

// The file of a cache: a head, the ID of the source, the files that need not be
// read, and the SHA-256 of all that. Each file has how much its name shares with
// the one before it, the rest of the name, mode, size, times, inode and content.
const (
	cacheSuffix = ".cache"
	cacheHead   = "pygent cache 1\n"
	maxCache    = 1 << 30 // bytes of a file that is read
	maxCaches   = 3       // files of one source: the last counts, and those before it if that is lost
)

// SaveCache keeps what is known of a source beside the log of a name, for the next
// process, whatever its log. The file may be lost without harm; of one source, only the
// last few stay.
func (s *Store) SaveCache(log, source string, c *Cache) error {
	name, err := cacheFile(log)
	if err != nil {
		return err
	}
	release, err := s.hold(context.Background())
	if err != nil {
		return err
	}
	defer release()
	if err := s.replaceFile(name, c.encode(source)); err != nil {
		return fmt.Errorf("save what is known of %s: %w", source, err)
	}
	kept := 0
	for _, name := range s.caches() {
		if f, _, ok := s.openCache(name, source); ok {
			_ = f.Close() // it was only read
			if kept++; kept > maxCaches {
				_ = s.root.Remove(name) // or the next one does
			}
		}
	}
	return nil
}

// LoadCache returns what SaveCache kept last for the same source, beside whichever
// log. The cache is empty if there is nothing, or something else than was written.
func (s *Store) LoadCache(source string) *Cache {
	for _, name := range s.caches() {
		if items, ok := s.readCache(name, source); ok {
			return &Cache{items: items}
		}
	}
	return new(Cache)
}

// caches returns the files of all caches, the last first.
func (s *Store) caches() (names []string) {
	entries, _ := fs.ReadDir(s.root.FS(), logsDir) // without them, all is read
	var files []fs.FileInfo
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && strings.HasSuffix(e.Name(), cacheSuffix) {
			files = append(files, info)
		}
	}
	slices.SortStableFunc(files, func(a, b fs.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	for _, info := range files {
		names = append(names, path.Join(logsDir, info.Name()))
	}
	return names
}

// openCache opens a file of a cache, if it is that of a source.
func (s *Store) openCache(name, source string) (f *os.File, size int64, ok bool) {
	f, err := s.root.Open(name)
	if err != nil {
		return nil, 0, false
	}
	begin := appendString([]byte(cacheHead), source)
	head := make([]byte, len(begin))
	info, err := f.Stat()
	if err != nil || readFull(f, head, 0) != nil || !bytes.Equal(head, begin) {
		_ = f.Close()
		return nil, 0, false
	}
	return f, info.Size(), true
}

// readCache reads a file of a cache, if it is that of a source.
func (s *Store) readCache(name, source string) (items []taken, ok bool) {
	f, size, ok := s.openCache(name, source)
	if !ok {
		return nil, false
	}
	defer f.Close()
	if size > maxCache {
		return nil, false
	}
	data := make([]byte, size)
	if readFull(f, data, 0) != nil {
		return nil, false
	}
	return decodeCache(data, source)
}

func cacheFile(log string) (string, error) {
	name, err := logFile(log)
	return name[:max(len(name)-len(logSuffix), 0)] + cacheSuffix, err
}

// replaceFile writes a file beside another one, and puts it into its place.
func (s *Store) replaceFile(name string, data []byte) error {
	temp := path.Join(path.Dir(name), "new-"+rand.Text())
	f, err := s.root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = s.root.Rename(temp, name)
	}
	if err != nil {
		err = errors.Join(err, s.root.Remove(temp))
	}
	return err
}

func (c *Cache) encode(source string) []byte {
	b := appendString([]byte(cacheHead), source)
	last := ""
	for i := range c.items {
		f := &c.items[i]
		if !f.trusted || f.item.Kind != treedir.File {
			continue
		}
		shared := 0
		for shared < min(len(last), len(f.Name)) && last[shared] == f.Name[shared] {
			shared++
		}
		b = binary.AppendUvarint(b, uint64(shared))
		b = appendString(b, f.Name[shared:])
		b = binary.AppendUvarint(b, uint64(f.Mode))
		b = binary.AppendUvarint(b, uint64(f.Size))
		b = binary.AppendVarint(b, f.ModTime)
		b = binary.AppendVarint(b, f.ChangeTime)
		b = binary.AppendUvarint(b, f.Inode)
		b = append(b, f.item.Content[:]...)
		last = f.Name
	}
	sum := sha256.Sum256(b)
	return append(b, sum[:]...)
}

// decodeCache is the inverse of encode.
func decodeCache(data []byte, source string) (items []taken, ok bool) {
	end := len(data) - sha256.Size
	if end < 0 || sha256.Sum256(data[:end]) != [sha256.Size]byte(data[end:]) {
		return nil, false
	}
	r := cacheReader{rest: data[:end]}
	if string(r.bytes(len(cacheHead))) != cacheHead || string(r.bytes(int(r.unsigned()))) != source {
		return nil, false
	}
	last := ""
	for len(r.rest) > 0 {
		shared := int(r.unsigned())
		rest := r.bytes(int(r.unsigned()))
		f := taken{trusted: true, item: treedir.Item{Kind: treedir.File}}
		f.Mode, f.Size = fs.FileMode(r.unsigned()), int64(r.unsigned())
		f.ModTime, f.ChangeTime, f.Inode = r.signed(), r.signed(), r.unsigned()
		copy(f.item.Content[:], r.bytes(treedir.HashSize))
		if r.bad || shared < 0 || shared > len(last) {
			return nil, false
		}
		f.Name = last[:shared] + string(rest)
		if last != "" && byPath(last, f.Name) >= 0 {
			return nil, false
		}
		last = f.Name
		if f.Inode == 0 {
			continue // its system may not tell a file from another of equal size and time
		}
		items = append(items, f)
	}
	return items, true
}

// cacheReader reads what encode wrote. After something else, bad is set.
type cacheReader struct {
	rest []byte
	bad  bool
}

func (r *cacheReader) bytes(n int) []byte {
	if n < 0 || n > len(r.rest) {
		r.bad, r.rest = true, nil
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *cacheReader) unsigned() uint64 {
	v, n := binary.Uvarint(r.rest)
	r.bytes(n)
	r.bad = r.bad || n <= 0
	return v
}

func (r *cacheReader) signed() int64 {
	v, n := binary.Varint(r.rest)
	r.bytes(n)
	r.bad = r.bad || n <= 0
	return v
}

// removeCache removes the file of a cache, if there is one.
func (s *Store) removeCache(log string) error {
	name, err := cacheFile(log)
	if err == nil {
		err = s.root.Remove(name)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
