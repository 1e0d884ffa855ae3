// What Grafana's own library makes of tables: it joins and names their columns, formats their cells, and knows their links.
//
// In: [{panel, frames: [{refId, fields: [{name, type, values}]}]}]. Out: of each the columns and rows, as texts.
const { JSDOM } = require('jsdom');

const page = new JSDOM('', { url: 'http://localhost/' }).window;
globalThis.window = page;
for (const name of ['document', 'history', 'localStorage', 'location', 'navigator', 'addEventListener']) {
  Object.defineProperty(globalThis, name, { value: page[name], configurable: true, writable: true });
}
console.log = console.info = () => {}; // what libraries say about themselves

const data = require('@grafana/data');
const { lastValueFrom } = require('rxjs');

data.standardTransformersRegistry.setInit(() =>
  [data.standardTransformers.mergeTransformer, data.standardTransformers.organizeFieldsTransformer].map((one) => ({
    id: one.id,
    name: one.name,
    description: '',
    transformation: one,
    editor: () => null,
  }))
);

const plain = (id, path, isCustom = false) => ({
  id,
  path,
  isCustom,
  name: id,
  editor: () => null,
  override: () => null,
  process: (value) => value,
  shouldApply: () => true,
  settings: {},
});
const registry = new data.FieldConfigOptionsRegistry(() => [
  ...['unit', 'decimals', 'thresholds', 'mappings', 'links', 'noValue', 'color'].map((id) => plain(id, id)),
  plain('custom.hidden', 'hidden', true),
  plain('custom.cellOptions', 'cellOptions', true),
]);

const filled = (text, values) =>
  text.replace(/\$\{__data\.fields\.(\w+)(\.numeric)?(?::(\w+))?\}/g, (_, name, numeric, format) => {
    const found = numeric ? values[name].numeric : String(values[name]);
    return format === 'percentencode' ? encodeURIComponent(found) : String(found);
  });

async function drawn({ panel, frames }) {
  const made = frames.map((frame) => data.toDataFrame(frame));
  const joined = await lastValueFrom(data.transformDataFrame(panel.transformations, made));
  const [frame] = data.applyFieldOverrides({
    data: joined,
    fieldConfig: panel.fieldConfig,
    replaceVariables: (text) => text,
    theme: data.createTheme(),
    timeZone: 'utc',
    fieldConfigRegistry: registry,
  });
  const rows = [...Array(frame.length).keys()].map((rowIndex) => {
    const values = data.getFieldDisplayValuesProxy({ frame, rowIndex });
    return Object.fromEntries(
      frame.fields.map((field) => [
        field.name,
        {
          text: data.formattedValueToString(field.display(field.values[rowIndex])),
          links: (field.config.links ?? []).map((link) => filled(link.url, values)),
        },
      ])
    );
  });
  return {
    frames: joined.length,
    columns: frame.fields.map((field) => ({
      name: data.getFieldDisplayName(field, frame),
      hidden: Boolean(field.config.custom?.hidden),
    })),
    rows,
  };
}

async function main() {
  let text = '';
  for await (const part of process.stdin) {
    text += part;
  }
  const asked = JSON.parse(text);
  const units = data.getValueFormats().flatMap((category) => category.submenu.map((unit) => unit.value));
  process.stdout.write(JSON.stringify({ units, tables: await Promise.all(asked.map(drawn)) }));
}

main();
