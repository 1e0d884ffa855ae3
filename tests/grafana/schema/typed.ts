// What a dashboard's JSON is checked against: Grafana's own types, with its enumerations as the texts that JSON has.
import type {
  AnnotationQuery,
  AnnotationTarget,
  Dashboard,
  DataSourceRef,
  FieldConfig,
  Panel,
  RowPanel,
  TableFieldOptions,
  VariableModel,
} from '@grafana/schema';
import type * as stat from '@grafana/schema/dist/esm/raw/composable/stat/panelcfg/x/StatPanelCfg_types.gen';
import type * as statetimeline from '@grafana/schema/dist/esm/raw/composable/statetimeline/panelcfg/x/StateTimelinePanelCfg_types.gen';
import type * as table from '@grafana/schema/dist/esm/raw/composable/table/panelcfg/x/TablePanelCfg_types.gen';
import type * as timeseries from '@grafana/schema/dist/esm/raw/composable/timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen';

type Json<T> = unknown extends T
  ? unknown
  : T extends string
    ? `${T}`
    : T extends number | boolean | null | undefined
      ? T
      : T extends Array<infer E>
        ? Array<Json<E>>
        : { [K in keyof T]: Json<T[K]> };

// What is checked apart is left open here; the theme is what Grafana 12 has no more, and 10 takes for dark.
export type Frame = Json<Omit<Dashboard, 'panels' | 'annotations' | 'templating' | 'style'>>;
// Grafana 10 wanted an id of each variable that nobody gives, and a source also of those that are one.
export type Variable = Json<Omit<VariableModel, 'id' | 'datasource'>> & { datasource?: Json<DataSourceRef> };

// A data source may add fields of its own to its annotations; these are Prometheus's, and the target is Grafana's.
export type Annotation = Json<Omit<AnnotationQuery, 'target'>> & {
  target?: Json<AnnotationTarget>;
  expr?: string;
  step?: string;
  titleFormat?: string;
  textFormat?: string;
  tagKeys?: string;
};

type Drawn<Type extends string, Options, Custom> = Json<Omit<Panel, 'type' | 'options' | 'fieldConfig' | 'targets'>> & {
  type: Type;
  // What an older Grafana did not have yet a newer one fills in.
  options: Partial<Json<Options>>;
  fieldConfig: {
    defaults: Json<Omit<FieldConfig, 'custom'>> & { custom?: Json<Partial<Custom>> };
    overrides: Array<{
      matcher: { id: 'byName' | 'byRegexp'; options: string };
      properties: Array<Property<Custom>>;
    }>;
  };
  targets: Array<Query>;
};

type Property<Custom> =
  // Of the columns of tables: Grafana 12 makes `custom.hideFrom.viz` of it where a dashboard's schemaVersion is below 42.
  | { id: 'custom.hidden'; value: true }
  | { [K in keyof FieldConfig & string]-?: { id: K; value: Json<NonNullable<FieldConfig[K]>> } }[keyof FieldConfig & string]
  | { [K in keyof Custom & string]-?: { id: `custom.${K}`; value: Json<NonNullable<Custom[K]>> } }[keyof Custom & string];

// Prometheus's queries are among the types of Grafana 10 alone; those of 11 and 12 are in the data source's package.
interface Query {
  refId: string;
  datasource: { type: string; uid: string };
  expr: string;
  editorMode: 'code' | 'builder';
  legendFormat?: string;
  format?: 'time_series' | 'table' | 'heatmap';
  instant: boolean;
  range: boolean;
  exemplar?: boolean;
}

export interface Panels {
  row: Json<RowPanel>;
  stat: Drawn<'stat', stat.Options, {}>;
  'state-timeline': Drawn<'state-timeline', statetimeline.Options, statetimeline.FieldConfig>;
  table: Drawn<'table', table.Options, TableFieldOptions>;
  timeseries: Drawn<'timeseries', timeseries.Options, timeseries.FieldConfig>;
}
