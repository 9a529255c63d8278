package terminal

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
)

func TestTheStatusSaysHowFullTheContextIs(t *testing.T) {
	for want, c := range map[string]pygent.ContextUse{
		"":                     {Window: 400_000},
		"context <1 %":         {Used: 3_999, Window: 400_000},
		"context 1 %":          {Used: 4_000, Window: 400_000},
		"context 100 %":        {Used: 500_000, Window: 400_000},
		"context 2,250 tokens": {Used: 2_250},
	} {
		require.Equal(t, want, full(c))
	}
}
