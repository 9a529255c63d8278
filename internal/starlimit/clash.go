package starlimit

import (
	"math/bits"

	"go.starlark.net/starlark"
)

// A table looks at all keys of a bucket for the one that it is asked for, and a program
// can choose numbers that all belong to one bucket. A single step that fills a table
// with n of them takes the time of n² looks. So the looks are counted before that, as
// the table would make them.
const (
	manyKeys     = 1000    // fewer take no time worth counting
	maxLooks     = 1 << 25 // of one step: some tenths of a second
	looksPerStep = 64      // in about the time of a step
	equalLooks   = 16      // what it takes to compare two keys of the same hash
	bucketLoad   = 6       // keys of a bucket, before a table grows
)

// clashing wraps a function that fills tables with the keys of its arguments and of
// recv, which may be nil. pairs says that keys come with their values.
func clashing(f *starlark.Builtin, recv starlark.Value, pairs bool) *starlark.Builtin {
	counted := func(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		all := args
		if recv != nil {
			all = append(starlark.Tuple{recv}, args...)
		}
		if err := clash(thread, pairs, all...); err != nil {
			return nil, err
		}
		return f.CallInternal(thread, args, kwargs)
	}
	made := starlark.NewBuiltin(f.Name(), counted)
	if recv != nil {
		made = made.BindReceiver(recv)
	}
	return made
}

// clash charges the time of a table with the keys of some values, and refuses one that
// takes too long.
func clash(thread *starlark.Thread, pairs bool, values ...starlark.Value) error {
	n := 0
	for _, v := range values {
		n += max(length(v), 0)
	}
	if n < manyKeys {
		return nil
	}
	t := table{buckets: map[uint32][]hashed{}, mask: 1<<bits.Len(uint(n/bucketLoad)) - 1}
	for _, v := range values {
		list, ok := v.(starlark.Iterable)
		if !ok {
			continue
		}
		if err := t.addAll(list, pairs); err != nil {
			return err
		}
	}
	thread.Steps += uint64(t.looks / looksPerStep)
	return nil
}

// table counts the looks at keys that a table of Starlark makes.
type table struct {
	buckets map[uint32][]hashed
	mask    uint32
	looks   int
}

type hashed struct {
	hash uint32
	key  starlark.Value
}

func (t *table) addAll(list starlark.Iterable, pairs bool) error {
	_, isDict := list.(*starlark.Dict)
	it := list.Iterate()
	defer it.Done()
	for v := starlark.Value(nil); it.Next(&v); {
		if pair, ok := v.(starlark.Indexable); ok && pairs && !isDict && pair.Len() == 2 {
			v = pair.Index(0)
		}
		if err := t.add(v); err != nil {
			return err
		}
	}
	return nil
}

// add adds a key, unless it is there. Keys that are none are Starlark's to refuse.
func (t *table) add(key starlark.Value) error {
	hash, err := key.Hash()
	if err != nil {
		return nil
	}
	bucket := t.buckets[hash&t.mask]
	for _, other := range bucket {
		t.looks++
		if other.hash != hash {
			continue
		}
		t.looks += equalLooks
		if same, err := starlark.Equal(key, other.key); same || err != nil {
			return nil
		}
	}
	if t.looks > maxLooks {
		return &LimitError{"too many keys of a dict or a set have the same hash"}
	}
	t.buckets[hash&t.mask] = append(bucket, hashed{hash, key})
	return nil
}
