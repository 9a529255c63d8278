package keyset_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/keyset"
)

func TestASetDropsTheOldestKey(t *testing.T) {
	var s keyset.Set
	key := func(i int) keyset.Key { return keyset.Of(strconv.Itoa(i)) }
	for i := range keyset.Most {
		s.Add(key(i))
		s.Add(key(0)) // is there already
	}
	require.True(t, s.Has(key(0)))
	s.Add(key(keyset.Most))
	require.False(t, s.Has(key(0)))
	require.True(t, s.Has(key(1)))
	require.True(t, s.Has(key(keyset.Most)))
}

func TestALayerTakesItsOwnKeysAlong(t *testing.T) {
	var s keyset.Set
	add := func(texts ...string) {
		for _, text := range texts {
			s.Add(keyset.Of(text))
		}
	}
	has := func() (texts []string) {
		for _, text := range []string{"before", "first", "second", "after"} {
			if s.Has(keyset.Of(text)) {
				texts = append(texts, text)
			}
		}
		return texts
	}
	add("before")
	first := s.Layer()
	add("first", "before")
	second := s.Layer()
	add("second", "first")
	first()
	require.Equal(t, []string{"before", "second"}, has())
	first()
	add("after")
	second()
	require.Equal(t, []string{"before"}, has())
	add("after")
	require.Equal(t, []string{"before", "after"}, has())
	for i := range keyset.Most {
		add(strconv.Itoa(i))
	}
	require.Empty(t, has(), "no key of a layer that is gone counts twice")
}

// What a layer took goes with it, so that it makes others forget nothing.
func TestALayerThatIsGoneTakesNoRoom(t *testing.T) {
	var s keyset.Set
	s.Add(keyset.Of("first"))
	remove := s.Layer()
	for i := range keyset.Most - 1 {
		s.Add(keyset.Of(strconv.Itoa(i)))
	}
	remove()
	s.Add(keyset.Of("last"))
	require.True(t, s.Has(keyset.Of("first")))
}

func TestTheZeroKeyIsInNoSet(t *testing.T) {
	var s keyset.Set
	s.Add(keyset.Key{})
	require.False(t, s.Has(keyset.Key{}))
}

func TestKeysOfOtherTextsDiffer(t *testing.T) {
	keys := map[keyset.Key]bool{}
	for _, texts := range [][]string{nil, {""}, {"", ""}, {"a", "b"}, {"ab"}, {"ab", ""}, {"", "ab"}, {"b", "a"}} {
		keys[keyset.Of(texts...)] = true
	}
	require.Len(t, keys, 8)
	require.Equal(t, keyset.Of("a", "b"), keyset.Of("a", "b"))
}
