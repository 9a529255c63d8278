package boundset_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/boundset"
)

func TestASetDropsTheOldestKey(t *testing.T) {
	var s boundset.Set
	key := func(i int) boundset.Key { return boundset.Of(strconv.Itoa(i)) }
	for i := range boundset.Most {
		s.Add(key(i))
		s.Add(key(0)) // is there already
	}
	require.True(t, s.Has(key(0)))
	s.Add(key(boundset.Most))
	require.False(t, s.Has(key(0)))
	require.True(t, s.Has(key(1)))
	require.True(t, s.Has(key(boundset.Most)))
}

func TestALayerTakesItsOwnKeysAlong(t *testing.T) {
	var s boundset.Set
	add := func(texts ...string) {
		for _, text := range texts {
			s.Add(boundset.Of(text))
		}
	}
	has := func() (texts []string) {
		for _, text := range []string{"before", "first", "second", "after"} {
			if s.Has(boundset.Of(text)) {
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
	for i := range boundset.Most {
		add(strconv.Itoa(i))
	}
	require.Empty(t, has(), "no key of a layer that is gone counts twice")
}

// What a layer took goes with it, so that it makes others forget nothing.
func TestALayerThatIsGoneTakesNoRoom(t *testing.T) {
	var s boundset.Set
	s.Add(boundset.Of("first"))
	remove := s.Layer()
	for i := range boundset.Most - 1 {
		s.Add(boundset.Of(strconv.Itoa(i)))
	}
	remove()
	s.Add(boundset.Of("last"))
	require.True(t, s.Has(boundset.Of("first")))
}

func TestTheZeroKeyIsInNoSet(t *testing.T) {
	var s boundset.Set
	s.Add(boundset.Key{})
	require.False(t, s.Has(boundset.Key{}))
}

func TestKeysOfOtherTextsDiffer(t *testing.T) {
	keys := map[boundset.Key]bool{}
	for _, texts := range [][]string{nil, {""}, {"", ""}, {"a", "b"}, {"ab"}, {"ab", ""}, {"", "ab"}, {"b", "a"}} {
		keys[boundset.Of(texts...)] = true
	}
	require.Len(t, keys, 8)
	require.Equal(t, boundset.Of("a", "b"), boundset.Of("a", "b"))
}
