package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// writeNoise makes a file that does not compress.
func writeNoise(name string, size int64) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	_, err = io.CopyN(f, rand.NewChaCha8([32]byte{}), size)
	return errors.Join(err, f.Close())
}

// sameTree compares two files, or two directories of files.
func sameTree(a, b string) error {
	entries, err := os.ReadDir(a)
	if err != nil {
		return sameFile(a, b)
	}
	others, err := os.ReadDir(b)
	if err != nil {
		return err
	}
	if len(entries) != len(others) {
		return fmt.Errorf("the copy has %d files in place of %d", len(others), len(entries))
	}
	for _, e := range entries {
		if err := sameFile(filepath.Join(a, e.Name()), filepath.Join(b, e.Name())); err != nil {
			return fmt.Errorf("%s: %w", e.Name(), err)
		}
	}
	return nil
}

// sameFile compares two files.
func sameFile(a, b string) error {
	x, err := os.Open(a)
	if err != nil {
		return err
	}
	defer x.Close()
	y, err := os.Open(b)
	if err != nil {
		return err
	}
	defer y.Close()
	return sameBytes(bufio.NewReader(x), bufio.NewReader(y))
}

func sameBytes(x, y io.Reader) error {
	p, q := make([]byte, 64<<10), make([]byte, 64<<10)
	for {
		n, err := io.ReadFull(x, p)
		m, other := io.ReadFull(y, q)
		if string(p[:n]) != string(q[:m]) {
			return errors.New("the copy differs")
		}
		if ended(err) && ended(other) {
			return nil
		}
		if err = errors.Join(err, other); err != nil {
			return err
		}
	}
}

func ended(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }
