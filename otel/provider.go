package otel

import (
	"net/url"
	"strconv"
	"strings"
)

// provider says who answers the calls of a model. The zero provider is not known.
type provider struct {
	name string // as the conventions name it
	host string
	port int
}

// providers are the conventions' names of those who have a given host, or one
// whose name ends so.
var providers = []struct {
	host, name string
	regional   bool // the name of a region may come before the host's
}{
	{host: "openai.azure.com", name: "azure.ai.openai"},
	{host: "ai.azure.com", name: "azure.ai.inference"},
	{host: "anthropic.com", name: "anthropic"},
	{host: "amazonaws.com", name: "aws.bedrock"},
	{host: "cohere.com", name: "cohere"},
	{host: "cohere.ai", name: "cohere"},
	{host: "deepseek.com", name: "deepseek"},
	{host: "generativelanguage.googleapis.com", name: "gcp.gemini"},
	{host: "aiplatform.googleapis.com", name: "gcp.vertex_ai", regional: true},
	{host: "groq.com", name: "groq"},
	{host: "mistral.ai", name: "mistral_ai"},
	{host: "moonshot.ai", name: "moonshot_ai"},
	{host: "moonshot.cn", name: "moonshot_ai"},
	{host: "perplexity.ai", name: "perplexity"},
	{host: "x.ai", name: "x_ai"},
}

// providerAt returns the provider whose API has a base URL. A server that is not
// known counts as OpenAI's, whose API it speaks.
func providerAt(baseURL string) provider {
	u, err := url.Parse(baseURL)
	if err != nil {
		return provider{name: "openai"}
	}
	p := provider{name: "openai", host: u.Hostname(), port: 443}
	if u.Scheme == "http" {
		p.port = 80
	}
	if port, err := strconv.Atoi(u.Port()); err == nil {
		p.port = port
	}
	host := strings.ToLower(p.host)
	for _, known := range providers {
		if strings.HasSuffix("."+host, "."+known.host) || known.regional && strings.HasSuffix(host, "-"+known.host) {
			p.name = known.name
			break
		}
	}
	return p
}
