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
	s.Clear()
	require.False(t, s.Has(key(1)))
	s.Add(key(1))
	require.True(t, s.Has(key(1)))
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
