package checkpoint

import (
	"encoding/binary"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// files makes a directory .git of paths and contents.
func files(parts ...map[string]string) repository {
	dir := fstest.MapFS{}
	for _, part := range parts {
		for name, content := range part {
			dir[name] = &fstest.MapFile{Data: []byte(content)}
		}
	}
	return repository{dir}
}

// indexOf is the index of a pack with objects, as gitformat-pack(5) describes it.
func indexOf(ids ...string) string {
	b := []byte("\xfftOc\x00\x00\x00\x02")
	slices.Sort(ids)
	var names []byte
	for _, id := range ids {
		name, _ := hex.DecodeString(id)
		names = append(names, name...)
	}
	for first := range 256 {
		n := 0
		for _, id := range ids {
			if name, _ := hex.DecodeString(id[:2]); int(name[0]) <= first {
				n++
			}
		}
		b = binary.BigEndian.AppendUint32(b, uint32(n))
	}
	return string(append(b, names...))
}

// What a turn has done to a repository is taken back only if commits are lost: gc, new
// commits and deleted branches whose commits are still there lose none.
func TestWhenARepositoryIsLost(t *testing.T) {
	t.Parallel()
	a, b, c := strings.Repeat("aa", 20), strings.Repeat("bb", 20), strings.Repeat("cc", 20)
	has := func(id string) map[string]string { return map[string]string{looseObject(id): "x"} }
	head := map[string]string{"HEAD": "ref: refs/heads/main\n"}
	main := func(id string) map[string]string { return map[string]string{"refs/heads/main": id + "\n"} }
	pack := func(name, index string) map[string]string {
		return map[string]string{"objects/pack/" + name + ".idx": index}
	}
	table, alternates := map[string]string{"reftable/tables.list": "x"}, map[string]string{"objects/info/alternates": "/elsewhere\n"}
	packedRefs := func(id string) map[string]string {
		return map[string]string{"packed-refs": "# pack-refs with: peeled fully-peeled sorted\n" + id + " refs/heads/main\n"}
	}
	before := files(head, main(a), has(a))
	cut := func(s string, n int) string { return s[:len(s)-n] }
	longer := indexOf(a)[:8+255*4] + "\x7f\xff\xff\xff" + indexOf(a)[8+256*4:]
	otherVersion := strings.Replace(indexOf(a), "\x02", "\x03", 1)
	for name, tt := range map[string]struct {
		was, is repository
		lost    bool
	}{
		"nothing happened":             {before, before, false},
		"a commit more":                {before, files(head, main(b), has(a), has(b)), false},
		"no HEAD":                      {before, files(main(a), has(a)), true},
		"no HEAD, as before":           {files(main(a), has(a)), files(main(a), has(a)), false},
		"no branch":                    {before, files(head, has(a)), true},
		"another repository":           {before, files(head, main(b), has(b)), true},
		"no commit yet":                {files(head), files(head, main(b), has(b)), false},
		"no commit, now as before":     {files(head), files(head), false},
		"behind the names of a pack":   {files(head, main(c), has(c)), files(head, main(c), pack("p", indexOf(a, b)+strings.Repeat("\xcc", 20))), true},
		"an index of a false length":   {before, files(head, main(a), pack("p", longer)), true},
		"objects elsewhere":            {files(head, main(a), alternates), files(head), false},
		"another format":               {files(head, main(a), has(a), table), before, true},
		"another format, too":          {before, files(head, main(a), has(a), table), true},
		"gc":                           {before, files(head, packedRefs(a), pack("p", indexOf(a, b, c))), false},
		"gc, the first of a pack":      {files(head, main(b), has(b)), files(head, main(b), pack("p", indexOf(a, b, c))), false},
		"gc that lost it":              {before, files(head, main(a), pack("p", indexOf(b, c))), true},
		"gc that lost the last":        {files(head, main(c), has(c)), files(head, main(c), pack("p", indexOf(a, b))), true},
		"an empty pack":                {before, files(head, main(a), pack("p", indexOf())), true},
		"an index cut off":             {before, files(head, main(a), pack("p", cut(indexOf(a), 1))), true},
		"an index of a few bytes":      {before, files(head, main(a), pack("p", "\xfftOc\x00\x00\x00\x02")), true},
		"an index of another kind":     {before, files(head, main(a), pack("p", otherVersion)), true},
		"packed, and packed anew":      {files(head, main(a), pack("p", indexOf(a))), files(head, main(a), pack("q", indexOf(a, b))), false},
		"packed, and in no pack now":   {files(head, main(a), pack("p", indexOf(a))), files(head, main(a), pack("q", indexOf(b))), true},
		"never there, as in a partial": {files(head, main(a), pack("p", indexOf(b))), files(head, main(a), pack("p", indexOf(b))), false},
		"a detached HEAD":              {files(map[string]string{"HEAD": a + "\n"}, has(a)), files(map[string]string{"HEAD": b + "\n"}, has(b)), true},
		"packed refs":                  {files(head, packedRefs(a), has(a)), files(head, packedRefs(b), has(b)), true},
		"one of two branches": {files(head, main(b), has(b), map[string]string{"refs/heads/old": a}, has(a)),
			files(head, main(b), has(b)), true},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tt.lost, tt.was.lostIn(tt.is)) })
	}
	many := maps.Clone(head)
	for i := range maxNames + 10 {
		many["refs/tags/"+hex.EncodeToString(binary.BigEndian.AppendUint32(nil, uint32(i)))] = strings.Repeat("0", 32) + hex.EncodeToString(binary.BigEndian.AppendUint32(nil, uint32(i)))
	}
	require.Len(t, files(many).refs(), maxNames, "more are not read")
}
