package objstore

import (
	"bufio"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"sync"

	"github.com/x/pygent/internal/treedir"
)

// packWriter writes the new blobs of one checkpoint. Its file is made with the
// first of them, and gets a pack's name when it is complete and on stable
// storage: until then no reader sees it.
type packWriter struct {
	s *Store

	mu   sync.Mutex // guards what follows
	file packFile   // nil until something is new
	temp string
	w    *bufio.Writer
	at   int64
	rows []row
	have map[hash]bool
}

// packFile is the file of a pack that is written.
type packFile interface {
	io.WriteCloser
	Sync() error
}

func (s *Store) newPack() *packWriter { return &packWriter{s: s, have: make(map[hash]bool)} }

// blobWriter adds blobs to a pack, for one goroutine of several.
type blobWriter struct {
	pack  *packWriter
	small []byte // used again for what is compressed
}

// add stores a blob unless it is stored already.
func (w *blobWriter) add(kind byte, raw []byte) (hash, error) {
	name := treedir.NameOf(kind, raw)
	if w.pack.has(name) {
		return name, nil
	}
	r := row{name: name, raw: uint32(len(raw)), kind: kind}
	data := raw
	var smaller bool
	if w.small, smaller = compress(w.small[:0], raw); smaller {
		data, r.kind = w.small, kind|withDeflate
	}
	return name, w.pack.write(r, data)
}

// has reports whether a blob is in the pack or in the store.
func (p *packWriter) has(name hash) bool {
	p.mu.Lock()
	have := p.have[name]
	p.mu.Unlock()
	return have || p.s.has(name)
}

// write appends a blob as it is stored, unless another goroutine has done so.
func (p *packWriter) write(r row, data []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.have[r.name] {
		return nil
	}
	if p.file == nil {
		if err := p.create(); err != nil {
			return fmt.Errorf("write pack: %w", err)
		}
	}
	if _, err := p.w.Write(data); err != nil {
		return fmt.Errorf("write pack: %w", err)
	}
	r.offset, r.stored = p.at, uint32(len(data))
	p.at += int64(len(data))
	p.rows = append(p.rows, r)
	p.have[r.name] = true
	return nil
}

// create makes the file. The caller holds mu.
func (p *packWriter) create() error {
	p.temp = path.Join(packsDir, "new-"+rand.Text())
	file, err := p.s.create(p.temp)
	if err != nil {
		return err
	}
	p.file, p.w = file, bufio.NewWriterSize(file, 256<<10)
	_, err = p.w.WriteString(packHead)
	p.at = int64(len(packHead))
	return err
}

// commit makes the pack a part of the store, and returns its size. It and abort are
// called when nobody writes any more.
func (p *packWriter) commit() (int64, error) {
	if p.file == nil {
		return 0, nil
	}
	index := appendIndex(nil, p.rows, p.at)
	_, err := p.w.Write(index)
	if err == nil {
		err = p.w.Flush()
	}
	if err == nil {
		err = p.file.Sync()
	}
	err = errors.Join(err, p.file.Close())
	p.file = nil
	name := hex.EncodeToString(index[len(index)-hashSize:]) + packSuffix
	if err == nil {
		err = p.s.root.Rename(p.temp, path.Join(packsDir, name))
	}
	if err == nil {
		err = treedir.SyncDir(p.s.root, packsDir)
	}
	if err != nil {
		return 0, errors.Join(fmt.Errorf("write pack: %w", err), p.abort())
	}
	p.s.learn(name, p.rows)
	return p.at + int64(len(index)), nil
}

// abort removes what was written, unless it is a pack already.
func (p *packWriter) abort() error {
	var err error
	if p.file != nil {
		err = p.file.Close()
		p.file = nil
	}
	if p.temp == "" {
		return err
	}
	if gone := p.s.root.Remove(p.temp); gone != nil && !errors.Is(gone, os.ErrNotExist) {
		err = errors.Join(err, gone)
	}
	return err
}
