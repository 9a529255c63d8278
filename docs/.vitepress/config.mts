// The site of the documentation: https://vitepress.dev/reference/site-config
import { posix } from 'node:path'

const repository = 'https://github.com/x/pygent'

// outside makes links to files of the repository that are not pages, such as examples,
// links to the repository. In the repository itself they work as they are written.
function outside(md) {
  md.core.ruler.push('outside', (state) => {
    const page = posix.join('docs', state.env.relativePath ?? '')
    for (const block of state.tokens) {
      for (const token of block.children ?? []) {
        const href = token.type === 'link_open' ? token.attrGet('href') : null
        if (!href || /^([a-z]+:|#|\/)/.test(href)) continue
        const target = posix.join(posix.dirname(page), href)
        if (!target.startsWith('docs/')) token.attrSet('href', `${repository}/blob/main/${target}`)
      }
    }
  })
}

const guides = [
  ['Tools', 'tools'], ['Approvals', 'approvals'], ['The terminal', 'terminal'], ['The web UI', 'web'],
]

export default {
  title: 'pygent',
  description: 'A coding agent that you can embed in a Go program.',
  lang: 'en',
  outDir: '../.build/site',
  cleanUrls: true,
  srcExclude: ['node_modules/**'],
  markdown: { config: outside },
  themeConfig: {
    search: { provider: 'local' },
    socialLinks: [{ icon: 'github', link: repository }],
    editLink: { pattern: `${repository}/edit/main/docs/:path` },
    outline: [2, 3],
    sidebar: [],
  },
}
